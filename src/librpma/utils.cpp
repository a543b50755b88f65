// SPDX-License-Identifier: BSD-3-Clause
#include "boundary.hpp"
#include "log.hpp"
#include "rdma/capabilities.hpp"
#include "rdma/cm.hpp"

using namespace rpma;

namespace
{

result<ibv_context *> find_device(const char *addr, rpma_util_ibv_context_type type)
{
    const bool local = type == RPMA_UTIL_IBV_CONTEXT_LOCAL;
    RPMA_ASSIGN_OR_RETURN(const rdma::addrinfo_handle names,
            rdma::resolve_name(addr, nullptr, local ? rdma::side::passive : rdma::side::active));
    rdma::id_handle id;
    if (local) {
        RPMA_ASSIGN_OR_RETURN(id, rdma::create_id(nullptr));
        RPMA_RETURN_IF_ERROR(rdma::bind_first(id.get(), names.get()).error());
    } else {
        RPMA_ASSIGN_OR_RETURN(id, rdma::resolve_address(names.get(), RPMA_DEFAULT_TIMEOUT_MS));
    }
    if (id->verbs == nullptr) {
        RPMA_LOG_ERROR("%s names no RDMA device; give the address of one of its ports\n", addr);
        errno = ENODEV;
        return errc::provider;
    }
    // librdmacm keeps the device open for the life of the process.
    return id->verbs;
}

} // namespace

extern "C" {

unsigned rpma_version(void)
{
    return LIBRPMA_VERSION;
}

int rpma_utils_get_ibv_context(const char *addr, enum rpma_util_ibv_context_type type, struct ibv_context **ibv_ctx_ptr)
{
    if (addr == nullptr || ibv_ctx_ptr == nullptr)
        return RPMA_E_INVAL;
    if (type != RPMA_UTIL_IBV_CONTEXT_LOCAL && type != RPMA_UTIL_IBV_CONTEXT_REMOTE)
        return RPMA_E_INVAL;
    return hand_out(find_device(addr, type), ibv_ctx_ptr);
}

int rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable)
{
    if (ibv_ctx == nullptr || is_odp_capable == nullptr)
        return RPMA_E_INVAL;
    auto capable = rdma::query_odp(ibv_ctx);
    if (capable.ok())
        *is_odp_capable = capable.value() ? 1 : 0;
    return to_int(capable.error());
}

} // extern "C"
