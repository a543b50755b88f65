// SPDX-License-Identifier: BSD-3-Clause
// Parts of the connection manager that this device does not model, among them calls newer than the headers
// it is built with. They exist because the real library would take our ids for its own.
#include "abi/device.hpp"

#include <rdma/rdma_cma.h>

using softrdma::abi::fail_with;

extern "C" {

int rdma_join_multicast(rdma_cm_id *, sockaddr *, void *)
{
    return fail_with(-1, EOPNOTSUPP);
}

int rdma_join_multicast_ex(rdma_cm_id *, rdma_cm_join_mc_attr_ex *, void *)
{
    return fail_with(-1, EOPNOTSUPP);
}

int rdma_leave_multicast(rdma_cm_id *, sockaddr *)
{
    return fail_with(-1, EOPNOTSUPP);
}

int rdma_set_local_ece(rdma_cm_id *, ibv_ece *)
{
    return fail_with(-1, EOPNOTSUPP);
}

int rdma_get_remote_ece(rdma_cm_id *, ibv_ece *)
{
    return fail_with(-1, EOPNOTSUPP);
}

int rdma_resolve_addrinfo(rdma_cm_id *, const char *, const char *, const rdma_addrinfo *);
int rdma_resolve_addrinfo(rdma_cm_id *, const char *, const char *, const rdma_addrinfo *)
{
    return fail_with(-1, EOPNOTSUPP);
}

int rdma_query_addrinfo(rdma_cm_id *, rdma_addrinfo **);
int rdma_query_addrinfo(rdma_cm_id *, rdma_addrinfo **)
{
    return fail_with(-1, EOPNOTSUPP);
}

int rdma_write_cm_event(rdma_cm_id *, rdma_cm_event_type, int, std::uint64_t);
int rdma_write_cm_event(rdma_cm_id *, rdma_cm_event_type, int, std::uint64_t)
{
    return fail_with(-1, EOPNOTSUPP);
}

} // extern "C"
