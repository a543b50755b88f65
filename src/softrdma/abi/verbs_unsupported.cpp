// SPDX-License-Identifier: BSD-3-Clause
// Verbs that this device does not model. They exist because a program, or librdmacm itself, would otherwise
// reach the real libibverbs with our objects.
#include "abi/device.hpp"

using softrdma::abi::fail_with;

#undef ibv_reg_mr_ex

extern "C" {

int ibv_attach_mcast(ibv_qp *, const ibv_gid *, std::uint16_t)
{
    return EOPNOTSUPP;
}

int ibv_detach_mcast(ibv_qp *, const ibv_gid *, std::uint16_t)
{
    return EOPNOTSUPP;
}

ibv_mr *ibv_reg_dmabuf_mr(ibv_pd *, std::uint64_t, std::size_t, std::uint64_t, int, int)
{
    return fail_with(nullptr, EOPNOTSUPP);
}

ibv_context *ibv_import_device(int)
{
    return fail_with(nullptr, EOPNOTSUPP);
}

ibv_pd *ibv_import_pd(ibv_context *, std::uint32_t)
{
    return fail_with(nullptr, EOPNOTSUPP);
}

void ibv_unimport_pd(ibv_pd *) {}

ibv_mr *ibv_import_mr(ibv_pd *, std::uint32_t)
{
    return fail_with(nullptr, EOPNOTSUPP);
}

void ibv_unimport_mr(ibv_mr *) {}

ibv_dm *ibv_import_dm(ibv_context *, std::uint32_t)
{
    return fail_with(nullptr, EOPNOTSUPP);
}

void ibv_unimport_dm(ibv_dm *) {}

int ibv_set_ece(ibv_qp *, ibv_ece *)
{
    return EOPNOTSUPP;
}

int ibv_query_ece(ibv_qp *, ibv_ece *)
{
    return EOPNOTSUPP;
}

int ibv_query_qp_data_in_order(ibv_qp *, ibv_wr_opcode, std::uint32_t)
{
    return 0;
}

int ibv_resolve_eth_l2_from_gid(ibv_context *, ibv_ah_attr *, std::uint8_t *, std::uint16_t *)
{
    return fail_with(-1, EOPNOTSUPP);
}

// The device has no directory in sysfs; these three are exported without a public declaration.
const char *ibv_get_sysfs_path(void);
const char *ibv_get_sysfs_path(void)
{
    return "/sys";
}

int ibv_read_sysfs_file(const char *, const char *, char *, std::size_t);
int ibv_read_sysfs_file(const char *, const char *, char *, std::size_t)
{
    return fail_with(-1, ENOENT);
}

int ibv_dontfork_range(void *, std::size_t);
int ibv_dontfork_range(void *, std::size_t)
{
    return 0;
}

int ibv_dofork_range(void *, std::size_t);
int ibv_dofork_range(void *, std::size_t)
{
    return 0;
}

// Newer than the headers this is built with; every argument list begins with an object of ours.
void *ibv_alloc_dmah(ibv_context *, void *);
void *ibv_alloc_dmah(ibv_context *, void *)
{
    return fail_with(nullptr, EOPNOTSUPP);
}

int ibv_dealloc_dmah(void *);
int ibv_dealloc_dmah(void *)
{
    return EOPNOTSUPP;
}

ibv_mr *ibv_reg_mr_ex(ibv_pd *, void *);
ibv_mr *ibv_reg_mr_ex(ibv_pd *, void *)
{
    return fail_with(nullptr, EOPNOTSUPP);
}

} // extern "C"
