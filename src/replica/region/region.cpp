// SPDX-License-Identifier: BSD-3-Clause
#include "region/region.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "message/status.hpp"

namespace replica
{

namespace
{

// Returns how to correct a failed registration. Registration pins the pages of the memory.
const char *registration_remedy(int error)
{
    return error == ENOMEM || error == EAGAIN ? " (raise the limit of locked memory, ulimit -l)"
           : error == EFAULT                  ? " (all of it must be mapped and readable)"
                                              : "";
}

[[gnu::format(printf, 3, 4)]] int fail(error_text *reason, int error, const char *pattern, ...)
{
    std::va_list arguments;
    va_start(arguments, pattern);
    reason->format_list(pattern, arguments);
    va_end(arguments);
    return error;
}

int connect_lane(region_lane &lane, data_path &path, const wire::region &target, const char *port, std::uint32_t number,
        std::uint64_t epoch)
{
    const auto session = array_of<token>(target.token());
    if (epoch == 0)
        return lane.connect(path, target.address().c_str(), port, make_lane_proof(session, number));
    return lane.connect(path, target.address().c_str(), port, make_epoch_proof(session, number, epoch));
}

// Returns the device that reaches the target, of its kind if possible, otherwise of an allowed one, or NULL.
ibv_context *find_device(const char *address, std::uint32_t allowed, std::uint32_t target_kind, int *error)
{
    *error = ENOMEDIUM;
    for (const std::uint32_t kind : kinds_to_try(allowed, target_kind)) {
        ibv_context *found = nullptr;
        const rpma_device_kind rpma_kind = kind == device_software ? RPMA_DEVICE_SOFTRDMA : RPMA_DEVICE_KERNEL;
        if (kind == 0)
            continue;
        const int result = rpma_utils_get_ibv_context_by_kind(address, RPMA_UTIL_IBV_CONTEXT_REMOTE, rpma_kind, &found);
        if (result == 0)
            return found;
        *error = shortage_or(*error, result);
    }
    return nullptr;
}

} // namespace

int region::open(const wire::region &target, const settings &params, const deadline &until, error_text *reason)
{
    path_.data_begin = target.has_header() ? header_size : 0;
    path_.window = std::min(target.window(), 8U);
    path_.depth = std::max(params.depth, 2U);
    path_.timeout_ms = params.timeout_ms;
    if (const int error = prepare_peer(target, params, reason); error != 0)
        return error;
    return connect_lanes(target, params, until, reason);
}

int region::prepare_peer(const wire::region &target, const settings &params, error_text *reason)
{
    int error = 0;
    ibv_context *const device = find_device(target.address().c_str(), params.devices, target.device(), &error);
    if (is_local_shortage(error))
        return fail(reason, error, "cannot open the RDMA device that reaches %s: %s", target.address().c_str(),
                std::strerror(error));
    if (device == nullptr)
        return fail(reason, ENOMEDIUM, "RDMA device that reaches %s not found%s", target.address().c_str(),
                (params.devices & device_software) != 0 ? " (install softrdma)" : "");
    if (const int result = rpma_peer_new(device, &path_.peer); result != 0)
        return fail(reason, shortage_or(ENOMEDIUM, result), "RDMA device that reaches %s: cannot be used",
                target.address().c_str());
    address_ = params.address;
    size_ = params.size;
    usage_ = RPMA_MR_USAGE_WRITE_SRC | (params.fetches ? RPMA_MR_USAGE_READ_DST : 0);
    error = register_memory(size_, &path_.region, reason);
    if (error != 0)
        return error;
    const auto remote = [](const std::string &descriptor, rpma_mr_remote **to) {
        return rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), to) == 0;
    };
    std::size_t data_size = 0;
    if (!remote(target.data_descriptor(), &path_.data) ||
            (target.has_header() && !remote(target.header_descriptor(), &path_.header)) ||
            rpma_mr_remote_get_size(path_.data, &data_size) != 0 || data_size < params.size - path_.data_begin)
        return fail(reason, EPROTO, "target: invalid descriptor of its memory");
    const std::string &peer = target.peer_descriptor();
    if (!peer.empty() && rpma_peer_cfg_from_descriptor(peer.data(), peer.size(), &path_.peer_cfg) != 0)
        return fail(reason, EPROTO, "target: invalid peer descriptor");
    return 0;
}

int region::register_memory(std::size_t size, rpma_mr_local **to, error_text *reason) const
{
    errno = 0;
    if (rpma_mr_reg(path_.peer, address_, size, usage_, to) == 0)
        return 0;
    const int error = errno == 0 ? ENOMEM : errno;
    return fail(reason, error, "cannot register the memory of the pool: %s%s", std::strerror(error),
            registration_remedy(error));
}

int region::check_registration(std::size_t size, error_text *reason) const
{
    rpma_mr_local *trial = nullptr;
    const int error = register_memory(size, &trial, reason);
    rpma_mr_dereg(&trial);
    return error;
}

int region::wait_for_all(const deadline &until)
{
    for (unsigned i = 0; i < lane_count_; ++i)
        if (lanes_[i].wait(lanes_[i].ticket(), until) == ETIMEDOUT)
            path_.lost.declare(ETIMEDOUT);
    return path_.lost.error();
}

int region::reregister(const deadline &until)
{
    wait_for_all(until);
    rpma_mr_dereg(&path_.region);
    error_text ignored;
    return register_memory(size_, &path_.region, &ignored);
}

int region::connect_lanes(const wire::region &target, const settings &params, const deadline &until, error_text *reason)
{
    lanes_ = static_cast<region_lane *>(std::calloc(target.lanes(), sizeof(region_lane)));
    if (lanes_ == nullptr)
        return fail(reason, ENOMEM, "out of memory");
    char port[12];
    std::snprintf(port, sizeof(port), "%u", target.port());
    int error = 0;
    while (lane_count_ < target.lanes() && error == 0) {
        auto *const added = new (&lanes_[lane_count_]) region_lane;
        error = connect_lane(*added, path_, target, port, lane_count_, params.epoch);
        ++lane_count_;
    }
    if (error == 0)
        choose_method(target);
    for (unsigned i = 0; i < lane_count_ && error == 0; ++i)
        error = lanes_[i].connected(until);
    if (error != 0)
        return fail(reason, error, "cannot connect lane to port %s of %s: %s", port, target.address().c_str(),
                std::strerror(error));
    return 0;
}

// Selects the flush method. If only the local device flushes natively, its operations do not work with the target,
// which then flushes on request by messages. If both devices do, a native flush reaches persistent memory.
void region::choose_method(const wire::region &target)
{
    path_.method = static_cast<replica::method>(target.method());
    level_ = static_cast<replica::level>(target.level());
    unsigned native_lanes = 0;
    for (unsigned i = 0; i < lane_count_; ++i)
        native_lanes += lanes_[i].flushes_natively() ? 1U : 0U;
    const bool target_is_native = (target.features() & feature_native_flush) != 0 && path_.peer_cfg != nullptr;
    if (native_lanes != 0 && !target_is_native) {
        path_.native_operations = false;
        path_.method = method::messages;
    }
    if (native_lanes < lane_count_ || !target_is_native || level_ < level::cpu_flushed)
        return;
    // librpma requires this setting for a persistent flush.
    if (rpma_peer_cfg_set_direct_write_to_pmem(path_.peer_cfg, true) != 0)
        return;
    path_.method = method::persistent_flush;
    level_ = level::native_flush;
}

void region::close()
{
    for (unsigned i = 0; i < lane_count_; ++i)
        lanes_[i].~region_lane();
    lane_count_ = 0;
    std::free(lanes_);
    lanes_ = nullptr;
    rpma_mr_remote_delete(&path_.data);
    rpma_mr_remote_delete(&path_.header);
    rpma_peer_cfg_delete(&path_.peer_cfg);
    rpma_mr_dereg(&path_.region);
    rpma_peer_delete(&path_.peer);
}

} // namespace replica
