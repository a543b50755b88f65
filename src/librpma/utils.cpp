// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>
#include <cstring>

#include "boundary.hpp"
#include "log.hpp"
#include "rdma/capabilities.hpp"
#include "rdma/cm.hpp"
#include "shortage.hpp"

using namespace rpma;

namespace
{

using rdma::library;

result<ibv_context *> find_device(const library &by, const char *addr, rpma_util_ibv_context_type type)
{
    const bool local = type == RPMA_UTIL_IBV_CONTEXT_LOCAL;
    RPMA_ASSIGN_OR_RETURN(const rdma::addrinfo_handle names,
            rdma::resolve_name(by, addr, nullptr, local ? rdma::side::passive : rdma::side::active));
    rdma::id_handle id;
    if (local) {
        RPMA_ASSIGN_OR_RETURN(id, rdma::create_synchronous_id(by));
        RPMA_RETURN_IF_ERROR(rdma::bind_first(id, names.get()).error());
    } else {
        RPMA_ASSIGN_OR_RETURN(id, rdma::resolve_address(names, RPMA_DEFAULT_TIMEOUT_MS));
    }
    if (id->verbs == nullptr) {
        RPMA_LOG_ERROR("%s: not an address of an RDMA device (use the address of one of its ports)\n", addr);
        errno = ENODEV;
        return errc::provider;
    }
    // librdmacm keeps the device open until the process exits.
    return id->verbs;
}

result<ibv_context *> find_software(const char *addr, rpma_util_ibv_context_type type)
{
    RPMA_ASSIGN_OR_RETURN(const library *const software, library::software());
    return find_device(*software, addr, type);
}

result<ibv_context *> find_device_of_kind(const char *addr, rpma_util_ibv_context_type type, rpma_device_kind kind)
{
    if (kind == RPMA_DEVICE_SOFTRDMA)
        return find_software(addr, type);
    const int before = errno;
    const library &system = library::system();
    RPMA_ASSIGN_OR_RETURN(const bool has_hardware, system.has_hardware());
    if (has_hardware) {
        auto found = find_device(system, addr, type);
        if (found.ok() || kind == RPMA_DEVICE_KERNEL || is_local_shortage(errno))
            return found;
    } else if (kind == RPMA_DEVICE_KERNEL) {
        RPMA_LOG_ERROR("RDMA device not found on this machine\n");
        errno = ENODEV;
        return errc::provider;
    }
    RPMA_LOG_NOTICE("%s: not an address of an RDMA device: using softrdma\n", addr);
    errno = before;
    return find_software(addr, type);
}

// Returns the device of the kind that RPMA_DEVICE selects, by default that of the linked libraries.
result<ibv_context *> find_requested_device(const char *addr, rpma_util_ibv_context_type type)
{
    const char *const value = std::getenv("RPMA_DEVICE");
    if (value == nullptr)
        return find_device(library::system(), addr, type);
    if (std::strcmp(value, "any") == 0)
        return find_device_of_kind(addr, type, RPMA_DEVICE_ANY);
    // Development versions used "hardware" and "software".
    if (std::strcmp(value, "kernel") == 0 || std::strcmp(value, "hardware") == 0)
        return find_device_of_kind(addr, type, RPMA_DEVICE_KERNEL);
    if (std::strcmp(value, "softrdma") == 0 || std::strcmp(value, "software") == 0)
        return find_device_of_kind(addr, type, RPMA_DEVICE_SOFTRDMA);
    RPMA_LOG_ERROR("RPMA_DEVICE: invalid value \"%s\" (use any, kernel or softrdma)\n", value);
    return errc::inval;
}

bool is_known(rpma_util_ibv_context_type type)
{
    return type == RPMA_UTIL_IBV_CONTEXT_LOCAL || type == RPMA_UTIL_IBV_CONTEXT_REMOTE;
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
    if (!is_known(type))
        return RPMA_E_INVAL;
    return return_handle(find_requested_device(addr, type), ibv_ctx_ptr);
}

int rpma_utils_get_ibv_context_by_kind(const char *addr, enum rpma_util_ibv_context_type type,
        enum rpma_device_kind kind, struct ibv_context **ibv_ctx_ptr)
{
    if (addr == nullptr || ibv_ctx_ptr == nullptr || !is_known(type))
        return RPMA_E_INVAL;
    if (kind != RPMA_DEVICE_ANY && kind != RPMA_DEVICE_KERNEL && kind != RPMA_DEVICE_SOFTRDMA)
        return RPMA_E_INVAL;
    return return_handle(find_device_of_kind(addr, type, kind), ibv_ctx_ptr);
}

int rpma_utils_ibv_context_get_kind(struct ibv_context *ibv_ctx, enum rpma_device_kind *kind)
{
    if (ibv_ctx == nullptr || kind == nullptr)
        return RPMA_E_INVAL;
    *kind = rdma::is_software(ibv_ctx) ? RPMA_DEVICE_SOFTRDMA : RPMA_DEVICE_KERNEL;
    return 0;
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
