// SPDX-License-Identifier: BSD-3-Clause
#include "peer.hpp"

#include <cstdlib>
#include <cstring>

#include "boundary.hpp"
#include "log.hpp"

using namespace rpma;

namespace
{

enum class method {
    automatic,
    native,
    emulated
};

// Operation that some devices support, and the environment variable that selects its method.
struct choice {
    const char *operation;
    const char *variable;
};
constexpr choice flush_choice{"flush", "RPMA_FLUSH_METHOD"};
constexpr choice atomic_write_choice{"atomic write", "RPMA_ATOMIC_WRITE_METHOD"};

result<method> requested_method(const choice &choice)
{
    const char *const value = std::getenv(choice.variable);
    if (value == nullptr || std::strcmp(value, "auto") == 0)
        return method::automatic;
    if (std::strcmp(value, "native") == 0)
        return method::native;
    if (std::strcmp(value, "emulated") == 0)
        return method::emulated;
    RPMA_LOG_ERROR("%s: invalid value \"%s\" (use auto, native or emulated)\n", choice.variable, value);
    return errc::inval;
}

result<bool> decide(const choice &choice, method requested, bool is_native_capable)
{
    if (is_native_capable)
        return requested != method::emulated;
    if (requested == method::native) {
        RPMA_LOG_ERROR("%s is \"native\": native %s not supported by the device (unset it)\n", choice.variable,
                choice.operation);
        return errc::nosupp;
    }
    RPMA_LOG_INFO("native %s not supported by the device: emulated\n", choice.operation);
    return false;
}

} // namespace

result<rpma_peer *> rpma_peer::create(ibv_context *context)
{
    RPMA_ASSIGN_OR_RETURN(const method flush_method, requested_method(flush_choice));
    RPMA_ASSIGN_OR_RETURN(const method atomic_write_method, requested_method(atomic_write_choice));
    RPMA_ASSIGN_OR_RETURN(const rdma::capabilities capabilities, rdma::query_capabilities(context));
    RPMA_ASSIGN_OR_RETURN(const bool flush_natively, decide(flush_choice, flush_method, capabilities.native_flush));
    RPMA_ASSIGN_OR_RETURN(const bool atomic_write_natively,
            decide(atomic_write_choice, atomic_write_method, capabilities.native_atomic_write));
    const std::uint64_t native_send_ops =
            (flush_natively ? rdma::send_op_flush : 0) | (atomic_write_natively ? rdma::send_op_atomic_write : 0);

    RPMA_ASSIGN_OR_RETURN(rdma::pd_handle pd, rdma::alloc_pd(context));
    auto *const peer = new rpma_peer(std::move(pd), capabilities, native_send_ops);
    if (peer == nullptr)
        return errc::nomem;
    return peer;
}

int rpma_peer::access_for(int usage) const
{
    int access = 0;
    if ((usage & RPMA_MR_USAGE_READ_SRC) != 0)
        access |= IBV_ACCESS_REMOTE_READ;
    if ((usage & RPMA_MR_USAGE_READ_DST) != 0) {
        access |= IBV_ACCESS_LOCAL_WRITE;
        // On iWARP, the response to a read is a write by the peer.
        if (pd_->context->device->transport_type == IBV_TRANSPORT_IWARP)
            access |= IBV_ACCESS_REMOTE_WRITE;
    }
    if ((usage & RPMA_MR_USAGE_WRITE_SRC) != 0)
        access |= IBV_ACCESS_LOCAL_WRITE;
    if ((usage & RPMA_MR_USAGE_WRITE_DST) != 0)
        access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    if ((usage & RPMA_MR_USAGE_RECV) != 0)
        access |= IBV_ACCESS_LOCAL_WRITE;

    // A remote peer without native flush reads instead, so both methods must work.
    if ((usage & RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY) != 0)
        access |= IBV_ACCESS_REMOTE_READ | (capabilities_.native_flush ? rdma::access_flush_global : 0);
    if ((usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) != 0)
        access |= IBV_ACCESS_REMOTE_READ | (capabilities_.native_flush ? rdma::access_flush_persistent : 0);
    return access;
}

result<rdma::mr_handle> rpma_peer::register_maybe_on_demand(void *ptr, std::size_t size, int access) const
{
    auto mr = rdma::register_memory(pd(), ptr, size, access);
    if (mr.ok() || errno != EOPNOTSUPP || !capabilities_.odp)
        return mr;
    // The memory cannot be pinned; a mapping on a DAX file system is the usual case.
    auto on_demand = rdma::register_memory(pd(), ptr, size, access | IBV_ACCESS_ON_DEMAND);
    if (!on_demand.ok())
        errno = EOPNOTSUPP;
    return on_demand;
}

result<rpma_peer::registration> rpma_peer::register_memory(void *ptr, std::size_t size, int usage) const
{
    const int before = errno;
    const int access = access_for(usage);
    auto mr = register_maybe_on_demand(ptr, size, access);
    if (mr.ok()) {
        errno = before;
        return registration{std::move(mr.value()), false};
    }
    const int error = errno;
    if ((access & rdma::access_flush_persistent) != 0 && (error == EINVAL || error == EOPNOTSUPP || error == ENOTSUP)) {
        mr = register_maybe_on_demand(ptr, size, (access & ~rdma::access_flush_persistent) | rdma::access_flush_global);
        if (mr.ok()) {
            RPMA_LOG_WARNING(
                    "memory region of %zu bytes at %p: native persistent flush rejected by the device: not persistent "
                    "memory (a flush to persistence guarantees visibility only)\n",
                    size, ptr);
            errno = before;
            return registration{std::move(mr.value()), true};
        }
    }
    const bool needs_odp = error == EOPNOTSUPP && !capabilities_.odp;
    return log::provider_error(error, "ibv_reg_mr",
            needs_odp ? "memory that cannot be pinned; on-demand paging (ODP), which the device lacks, is needed" : "");
}

extern "C" {

int rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr)
{
    if (ibv_ctx == nullptr || peer_ptr == nullptr)
        return RPMA_E_INVAL;
    return return_handle(rpma_peer::create(ibv_ctx), peer_ptr);
}

int rpma_peer_delete(struct rpma_peer **peer_ptr)
{
    return close_and_delete(peer_ptr);
}

} // extern "C"
