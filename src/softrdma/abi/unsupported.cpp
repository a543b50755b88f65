// SPDX-License-Identifier: BSD-3-Clause
// Functions that this device does not model. Without them, programs would call the real libraries with its objects.
#include "abi/device.hpp"

#include <array>
#include <rdma/rdma_cma.h>

using softrdma::abi::fail_with;

#define UNSUPPORTED(result, name, failing, ...)                                                                        \
    extern "C" result name(__VA_ARGS__)                                                                                \
    {                                                                                                                  \
        return fail_with<result>(failing, EOPNOTSUPP);                                                                 \
    }

UNSUPPORTED(int, ibv_attach_mcast, EOPNOTSUPP, ibv_qp *, const ibv_gid *, std::uint16_t)
UNSUPPORTED(int, ibv_detach_mcast, EOPNOTSUPP, ibv_qp *, const ibv_gid *, std::uint16_t)
UNSUPPORTED(ibv_mr *, ibv_reg_dmabuf_mr, nullptr, ibv_pd *, std::uint64_t, std::size_t, std::uint64_t, int, int)
UNSUPPORTED(ibv_context *, ibv_import_device, nullptr, int)
UNSUPPORTED(ibv_pd *, ibv_import_pd, nullptr, ibv_context *, std::uint32_t)
UNSUPPORTED(ibv_mr *, ibv_import_mr, nullptr, ibv_pd *, std::uint32_t)
UNSUPPORTED(ibv_dm *, ibv_import_dm, nullptr, ibv_context *, std::uint32_t)
UNSUPPORTED(int, ibv_set_ece, EOPNOTSUPP, ibv_qp *, ibv_ece *)
UNSUPPORTED(int, ibv_query_ece, EOPNOTSUPP, ibv_qp *, ibv_ece *)
UNSUPPORTED(int, ibv_resolve_eth_l2_from_gid, -1, ibv_context *, ibv_ah_attr *, std::uint8_t *, std::uint16_t *)
UNSUPPORTED(int, rdma_join_multicast, -1, rdma_cm_id *, sockaddr *, void *)
UNSUPPORTED(int, rdma_join_multicast_ex, -1, rdma_cm_id *, rdma_cm_join_mc_attr_ex *, void *)
UNSUPPORTED(int, rdma_leave_multicast, -1, rdma_cm_id *, sockaddr *)
UNSUPPORTED(int, rdma_set_local_ece, -1, rdma_cm_id *, ibv_ece *)
UNSUPPORTED(int, rdma_get_remote_ece, -1, rdma_cm_id *, ibv_ece *)

extern "C" {

void ibv_unimport_pd(ibv_pd *) {}
void ibv_unimport_mr(ibv_mr *) {}
void ibv_unimport_dm(ibv_dm *) {}

int ibv_query_qp_data_in_order(ibv_qp *, ibv_wr_opcode, std::uint32_t)
{
    return 0;
}

// Exported without a public declaration.
const char *ibv_get_sysfs_path(void)
{
    return "/sys";
}

int ibv_read_sysfs_file(const char *, const char *, char *, std::size_t)
{
    return fail_with(-1, ENOENT);
}

int ibv_dontfork_range(void *, std::size_t)
{
    return 0;
}

int ibv_dofork_range(void *, std::size_t)
{
    return 0;
}

} // extern "C"

// Functions newer than the oldest supported headers, with asm labels, because newer headers declare them otherwise.
#define UNSUPPORTED_SINCE(result, name, failing, ...)                                                                  \
    extern "C" result name##_unsupported(__VA_ARGS__) __asm__(#name);                                                  \
    UNSUPPORTED(result, name##_unsupported, failing, __VA_ARGS__)

UNSUPPORTED_SINCE(int, rdma_resolve_addrinfo, -1, rdma_cm_id *, const char *, const char *, const rdma_addrinfo *)
UNSUPPORTED_SINCE(int, rdma_query_addrinfo, -1, rdma_cm_id *, rdma_addrinfo **)
UNSUPPORTED_SINCE(int, rdma_write_cm_event, -1, rdma_cm_id *, rdma_cm_event_type, int, std::uint64_t)
// rdma-core 59
UNSUPPORTED_SINCE(void *, ibv_alloc_dmah, nullptr, ibv_context *, void *)
UNSUPPORTED_SINCE(int, ibv_dealloc_dmah, EOPNOTSUPP, void *)
UNSUPPORTED_SINCE(ibv_mr *, ibv_reg_mr_ex, nullptr, ibv_pd *, void *)
// 62
UNSUPPORTED_SINCE(int, ibv_dm_export_dmabuf_fd, -1, ibv_dm *)
// 65
UNSUPPORTED_SINCE(int, _ibv_query_comp_cntr_caps, EOPNOTSUPP, ibv_context *, void *, std::size_t)
UNSUPPORTED_SINCE(void *, ibv_create_comp_cntr, nullptr, ibv_context *, void *)
UNSUPPORTED_SINCE(int, ibv_destroy_comp_cntr, EOPNOTSUPP, void *)
UNSUPPORTED_SINCE(int, ibv_set_comp_cntr, EOPNOTSUPP, void *, std::uint64_t)
UNSUPPORTED_SINCE(int, ibv_set_err_comp_cntr, EOPNOTSUPP, void *, std::uint64_t)
UNSUPPORTED_SINCE(int, ibv_inc_comp_cntr, EOPNOTSUPP, void *, std::uint64_t)
UNSUPPORTED_SINCE(int, ibv_inc_err_comp_cntr, EOPNOTSUPP, void *, std::uint64_t)
UNSUPPORTED_SINCE(int, ibv_read_comp_cntr, EOPNOTSUPP, void *, std::uint64_t *)
UNSUPPORTED_SINCE(int, ibv_read_err_comp_cntr, EOPNOTSUPP, void *, std::uint64_t *)
UNSUPPORTED_SINCE(int, ibv_qp_attach_comp_cntr, EOPNOTSUPP, ibv_qp *, void *, void *)

namespace softrdma::abi
{

// Table with more words than the structure in any libibverbs: a bit mask of unsupported ioctls, flags and operations.
using operation = int (*)();
constexpr std::size_t private_words = 512;

static constexpr std::array<operation, private_words> unsupported_operations = [] {
    std::array<operation, private_words> all{};
    all.fill([] { return fail_with(EOPNOTSUPP, EOPNOTSUPP); });
    return all;
}();

verbs_ex_private *private_operations() noexcept
{
    return reinterpret_cast<verbs_ex_private *>(const_cast<operation *>(unsupported_operations.data()));
}

} // namespace softrdma::abi
