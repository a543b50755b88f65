// SPDX-License-Identifier: BSD-3-Clause
#include "pool.hpp"

#include <algorithm>
#include <cstring>
#include <sys/resource.h>

#include "degrade.hpp"
#include "failure.hpp"
#include "log.hpp"
#include "state_file.hpp"

using namespace rpmem;
using replica::range;

namespace
{

// What a lane takes of the descriptors of a process, and what the process keeps for itself.
constexpr rlim_t descriptors_per_lane = 6;
constexpr rlim_t other_descriptors = 64;
// Every device gives queues of this length. A lane has fewer operations under way in any case.
constexpr int longest_queue = 1024;

unsigned bearable_lanes()
{
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= other_descriptors + descriptors_per_lane)
        return 1;
    return static_cast<unsigned>(
            std::min<rlim_t>((limit.rlim_cur - other_descriptors) / descriptors_per_lane, replica::most_lanes));
}

} // namespace

replica_name_text rpmem::replica_name(const char *target, const char *set_name)
{
    const bool here = std::string_view(target) == "local:";
    replica_name_text name;
    name.format("replica %s on %s", set_name, here ? "this machine" : target);
    return name;
}

int rpmem_pool::open(const wanted &w)
{
    name_ = replica_name(w.target, w.set_name);
    created_ = w.create;
    replica::error_text fault;
    if (const int error = w.create ? 0 : recorded_fault(name_.c_str(), &fault); error != 0)
        return fail(error, "%s: %s", name_.c_str(), fault.c_str());
    if (const int error = region_.lost().open(); error != 0)
        return fail(error, "cannot make an event: %s", std::strerror(error));
    replica::answer a;
    if (start_session(w, &a) != 0)
        return -1;
    size_ = w.size;
    attributes_ = w.create ? w.attributes : a.session.attributes;
    if (open_data_path(w, a.session) != 0 || check_level() != 0 || session_.watch() != 0) {
        // The caller is to see why the pool could not be opened, not what became of saying so.
        const int error = errno;
        const replica::error_text why(last_failure());
        give_up_silent_target(error);
        region_.close();
        tell_close(w.create);
        return fail(error, "%s", why.c_str());
    }
    log_line(log_level::info, "%s: open, %u lanes, method %u, level %u", name_.c_str(), region_.lanes(),
            static_cast<unsigned>(region_.method()), static_cast<unsigned>(region_.level()));
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
    if (session_.request(r, a) != 0)
        return -1;
    if (a->session.lanes > r.session.lanes || a->session.pool_size < w.size)
        return fail(EPROTO, "the target answered with more lanes, or a smaller pool, than asked for");
    return 0;
}

int rpmem_pool::check_level()
{
    const auto level = static_cast<int>(region_.level());
    if (level >= settings_.min_level)
        return 0;
    return fail(ENOTSUP, "%s has persistence level %d, RPMEM_MIN_LEVEL asks for %d", name_.c_str(), level,
            settings_.min_level);
}

int rpmem_pool::open_data_path(const wanted &w, const replica::session_answer &s)
{
    if (s.has_header && w.size <= replica::header_size)
        return fail(EINVAL, "the pool is not larger than its header");
    replica::region::terms terms;
    terms.address = static_cast<std::byte *>(w.address);
    terms.size = w.size;
    terms.depth = static_cast<std::uint32_t>(std::clamp(settings().queue_depth, 2, longest_queue));
    terms.timeout_ms = settings_.timeout_ms;
    replica::error_text why;
    const int error = region_.open(s, terms, &why);
    return error == 0 ? 0 : fail(error, "%s", why.c_str());
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
    give_up_silent_target(region_.lost().error());
    region_.close();
    int closed =
            region_.lost().error() == 0 ? tell_close(false) : fail(ECONNRESET, "%s was lost before", name_.c_str());
    const int error = errno;
    session_.finish();
    // Nothing may have noticed the loss but this.
    if (closed != 0 && settings_.on_loss == on_loss::degrade)
        closed = outcome(region_.lost().error() != 0 ? region_.lost().error() : error);
    else if (closed == 0 && created_)
        record_made_again(name_.c_str());
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
    const bool has_header = region_.data_begin() != 0;
    if (is_zero(r.attributes) == has_header)
        return fail(EINVAL, has_header ? "a pool with a header cannot have attributes that are all zero"
                                       : "a pool without header has no attributes");
    if (!has_header)
        return 0;
    replica::answer a;
    if (region_.lost().error() == 0 && session_.request(r, &a) == 0)
        return 0;
    // What the target refuses is no loss.
    return region_.lost().error() == 0 ? -1 : outcome(region_.lost().error());
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
    const int lost = region_.lost().error();
    return outcome(lost != 0 ? lost : region_.lane(lane).flush(r));
}

int rpmem_pool::drain(unsigned lane, replica::lane_request_kind kind)
{
    return outcome(region_.lane(lane).drain(kind));
}

int rpmem_pool::read(void *to, range r, unsigned lane)
{
    const int lost = region_.lost().error();
    const int error = lost != 0 ? lost : region_.lane(lane).read(to, r);
    return error == 0 ? 0 : fail(error, "%s is lost: %s", name_.c_str(), std::strerror(error));
}

int rpmem_pool::check_lane(unsigned lane) const
{
    if (lane >= region_.lanes())
        return fail(EINVAL, "there is no lane %u: the pool has %u", lane, region_.lanes());
    return 0;
}

int rpmem_pool::check_writable(range r) const
{
    if (r.offset < region_.data_begin())
        return fail(EINVAL, "offset %zu is in the header of the pool, which ends at %zu",
                static_cast<std::size_t>(r.offset), static_cast<std::size_t>(region_.data_begin()));
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
