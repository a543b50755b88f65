// SPDX-License-Identifier: BSD-3-Clause
#include "pool.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <sys/resource.h>

#include "degrade.hpp"
#include "failure.hpp"
#include "lane_proof.hpp"
#include "log.hpp"

using namespace rpmem;
using replica::deadline;
using replica::range;

namespace
{

// What a lane takes of the descriptors of a process, and what the process keeps for itself.
constexpr rlim_t descriptors_per_lane = 6;
constexpr rlim_t other_descriptors = 64;

unsigned bearable_lanes()
{
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= other_descriptors + descriptors_per_lane)
        return 1;
    return static_cast<unsigned>(
            std::min<rlim_t>((limit.rlim_cur - other_descriptors) / descriptors_per_lane, replica::most_lanes));
}

// The pages of the pool are pinned.
const char *registration_remedy(int error)
{
    return error == ENOMEM || error == EAGAIN ? "; raise the limit of locked memory (ulimit -l)" : "";
}

} // namespace

rpmem_pool::~rpmem_pool()
{
    close_data_path();
}

int rpmem_pool::open(const wanted &w)
{
    const bool here = std::string_view(w.target) == "local:";
    name_.format("replica %s on %s", w.set_name, here ? "this machine" : w.target);
    if (const int error = path_.lost.open(); error != 0)
        return fail(error, "cannot make an event: %s", std::strerror(error));
    replica::answer a;
    if (start_session(w, &a) != 0)
        return -1;
    size_ = w.size;
    attributes_ = w.create ? w.attributes : a.session.attributes;
    if (check_level(a.session) != 0 || open_data_path(w, a.session) != 0 || session_.watch() != 0) {
        // The caller is to see why the pool could not be opened, not what became of saying so.
        const int error = errno;
        const replica::error_text why(last_failure());
        give_up_silent_target(error);
        close_data_path();
        tell_close(w.create);
        return fail(error, "%s", why.c_str());
    }
    log_line(log_level::info, "%s: open, %u lanes, method %u, level %u", name_.c_str(), lane_count_,
            static_cast<unsigned>(path_.method), static_cast<unsigned>(a.session.level));
    return 0;
}

int rpmem_pool::start_session(const wanted &w, replica::answer *a)
{
    replica::target to;
    if (const char *const fault = replica::parse_target(w.target, to))
        return fail(EINVAL, "%s: %s", w.target, fault);
    to.local = to.local || settings_.exec;
    if (session_.start(to) != 0)
        return -1;
    replica::request r;
    r.type = w.create ? replica::request_type::create : replica::request_type::open;
    r.session.pool_size = w.size;
    r.session.lanes = std::min({w.lanes, static_cast<unsigned>(settings().most_lanes), bearable_lanes()});
    r.session.devices = settings_.devices;
    r.session.keep_alive_ms = session_.keeps_alive() ? session::keep_alive_ms : 0;
    r.session.attributes = w.attributes;
    r.session.set_name.assign(w.set_name);
    lane_count_ = 0;
    if (session_.request(r, a) != 0)
        return -1;
    if (a->session.lanes > r.session.lanes || a->session.pool_size < w.size)
        return fail(EPROTO, "the target answered with more lanes, or a smaller pool, than asked for");
    return 0;
}

int rpmem_pool::check_level(const replica::session_answer &s)
{
    const auto level = static_cast<int>(s.level);
    if (level >= settings_.min_level)
        return 0;
    return fail(ENOTSUP, "%s has persistence level %d, RPMEM_MIN_LEVEL asks for %d", name_.c_str(), level,
            settings_.min_level);
}

int rpmem_pool::open_data_path(const wanted &w, const replica::session_answer &s)
{
    path_.data_begin = s.has_header ? replica::header_size : 0;
    path_.method = s.method;
    path_.window = std::min(s.window, 8U);
    path_.depth = static_cast<std::uint32_t>(std::max(settings().queue_depth, 2));
    path_.timeout_ms = settings_.timeout_ms;
    if (s.has_header && w.size <= replica::header_size)
        return fail(EINVAL, "the pool is not larger than its header");
    if (prepare_peer(w, s) != 0)
        return -1;
    return connect_lanes(s, s.lanes);
}

int rpmem_pool::prepare_peer(const wanted &w, const replica::session_answer &s)
{
    ibv_context *device = nullptr;
    const bool software = s.devices == replica::device_software;
    const int found = rpma_utils_get_ibv_context_of_kind(s.address.c_str(), RPMA_UTIL_IBV_CONTEXT_REMOTE,
            software ? RPMA_DEVICE_SOFTWARE : RPMA_DEVICE_HARDWARE, &device);
    if (found != 0)
        return fail(ENOMEDIUM, "no RDMA device reaches %s%s", s.address.c_str(),
                software ? ": softrdma is not installed beside librpma" : "");
    if (rpma_peer_new(device, &path_.peer) != 0)
        return fail(ENOMEDIUM, "the RDMA device that reaches %s cannot be used", s.address.c_str());
    errno = 0;
    const int usage = RPMA_MR_USAGE_WRITE_SRC;
    if (rpma_mr_reg(path_.peer, w.address, w.size, usage, &path_.region) != 0) {
        const int error = errno == 0 ? ENOMEM : errno;
        return fail(error, "cannot register the memory of the pool: %s%s", std::strerror(error),
                registration_remedy(error));
    }
    const auto remote = [](const replica::descriptor &d, rpma_mr_remote **to) {
        return rpma_mr_remote_from_descriptor(d.c_str(), d.view().size(), to) == 0;
    };
    std::size_t data_size = 0;
    if (!remote(s.data_region, &path_.data) || (s.has_header && !remote(s.header_region, &path_.header)) ||
            rpma_mr_remote_get_size(path_.data, &data_size) != 0 || data_size < w.size - path_.data_begin)
        return fail(EPROTO, "the target described its memory in a way that is not understood");
    if (!s.peer.empty() && rpma_peer_cfg_from_descriptor(s.peer.c_str(), s.peer.view().size(), &path_.peer_cfg) != 0)
        return fail(EPROTO, "the target described itself in a way that is not understood");
    return 0;
}

int rpmem_pool::connect_lanes(const replica::session_answer &s, unsigned lanes)
{
    lane_array_ = static_cast<lane *>(std::calloc(lanes, sizeof(lane)));
    if (lane_array_ == nullptr)
        return fail(ENOMEM, "out of memory");
    char port[12];
    std::snprintf(port, sizeof(port), "%u", s.port);
    int error = 0;
    while (lane_count_ < lanes && error == 0) {
        auto *const made = new (&lane_array_[lane_count_]) lane;
        error = made->connect(path_, s.address.c_str(), port, replica::make_lane_proof(s.token, lane_count_));
        ++lane_count_;
    }
    const deadline until(settings_.timeout_ms);
    for (unsigned i = 0; i < lane_count_ && error == 0; ++i)
        error = lane_array_[i].connected(until);
    if (error != 0)
        return fail(error, "cannot connect lane to port %s of %s: %s", port, s.address.c_str(), std::strerror(error));
    return 0;
}

void rpmem_pool::close_data_path()
{
    for (unsigned i = 0; i < lane_count_; ++i)
        lane_array_[i].~lane();
    lane_count_ = 0;
    std::free(lane_array_);
    lane_array_ = nullptr;
    rpma_mr_remote_delete(&path_.data);
    rpma_mr_remote_delete(&path_.header);
    rpma_peer_cfg_delete(&path_.peer_cfg);
    rpma_mr_dereg(&path_.region);
    rpma_peer_delete(&path_.peer);
}

int rpmem_pool::tell_close(bool remove)
{
    replica::request r;
    r.type = replica::request_type::close;
    r.remove = remove;
    replica::answer a;
    return session_.request(r, &a);
}

// On one host the device of this process waits for a peer that was stopped in the middle of an operation on memory that
// both share: nothing may be torn down under it before it is dead.
void rpmem_pool::give_up_silent_target(int error)
{
    if (error == ETIMEDOUT)
        session_.kill_daemon();
}

int rpmem_pool::close()
{
    give_up_silent_target(path_.lost.error());
    close_data_path();
    int closed = path_.lost.error() == 0 ? tell_close(false) : fail(ECONNRESET, "%s was lost before", name_.c_str());
    const int error = errno;
    session_.finish();
    // Nothing may have noticed the loss but this.
    if (closed != 0 && settings_.on_loss == on_loss::degrade)
        closed = outcome(path_.lost.error() != 0 ? path_.lost.error() : error);
    errno = error;
    return closed;
}

int rpmem_pool::set_attributes(const rpmem_pool_attr *attributes)
{
    replica::request r;
    r.type = replica::request_type::set_attributes;
    static_assert(sizeof(*attributes) == sizeof(r.attributes));
    if (attributes != nullptr)
        std::memcpy(static_cast<void *>(&r.attributes), attributes, sizeof(r.attributes));
    const bool has_header = path_.data_begin != 0;
    if (is_zero(r.attributes) == has_header)
        return fail(EINVAL, has_header ? "a pool with a header cannot have attributes that are all zero"
                                       : "a pool without header has no attributes");
    if (!has_header)
        return 0;
    replica::answer a;
    if (path_.lost.error() == 0 && session_.request(r, &a) == 0)
        return 0;
    // What the target refuses is no loss.
    return path_.lost.error() == 0 ? -1 : outcome(path_.lost.error());
}

int rpmem_pool::outcome(int error)
{
    if (error == 0)
        return 0;
    if (settings_.on_loss == on_loss::error)
        return fail(error, "%s is lost: %s", name_.c_str(), std::strerror(error));
    if (!loss_told_.exchange(true))
        tell_degraded(name_.c_str(), error);
    return 0;
}

int rpmem_pool::flush(range r, unsigned lane)
{
    const int lost = path_.lost.error();
    return outcome(lost != 0 ? lost : lane_array_[lane].flush(r));
}

int rpmem_pool::drain(unsigned lane, replica::lane_request_kind kind)
{
    return outcome(lane_array_[lane].drain(kind));
}

int rpmem_pool::read(void *to, range r, unsigned lane)
{
    const int lost = path_.lost.error();
    const int error = lost != 0 ? lost : lane_array_[lane].read(to, r);
    return error == 0 ? 0 : fail(error, "%s is lost: %s", name_.c_str(), std::strerror(error));
}

int rpmem_pool::check_lane(unsigned lane) const
{
    if (lane >= lane_count_)
        return fail(EINVAL, "there is no lane %u: the pool has %u", lane, lane_count_);
    return 0;
}

int rpmem_pool::check_writable(range r) const
{
    if (r.offset < path_.data_begin)
        return fail(EINVAL, "offset %zu is in the header of the pool, which ends at %zu",
                static_cast<std::size_t>(r.offset), static_cast<std::size_t>(path_.data_begin));
    return check_readable(r);
}

int rpmem_pool::check_readable(range r) const
{
    if (!range_fits(r, 0, size_))
        return fail(EINVAL, "%zu bytes from offset %zu on do not lie within the pool of %zu bytes",
                static_cast<std::size_t>(r.length), static_cast<std::size_t>(r.offset),
                static_cast<std::size_t>(size_));
    return 0;
}
