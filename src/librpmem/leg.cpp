// SPDX-License-Identifier: BSD-3-Clause
#include "leg.hpp"

#include <algorithm>
#include <cstring>

#include "failure.hpp"

namespace rpmem
{

namespace
{

// Every device gives queues of this length. A lane has fewer operations under way in any case.
constexpr int longest_queue = 1024;

} // namespace

leg::leg(const call_settings &settings, std::string_view target, const char *set_name)
    : settings_(settings), name_(replica_name(target, set_name)), set_name_(set_name),
      session_(settings, region_.lost())
{
}

void leg::keep_failure()
{
    error = errno;
    why.assign(last_failure());
    give_up_silent_target(error);
    errno = error;
}

int leg::start(const replica::target &to, const daemon_command &chosen, const replica::deadline &until)
{
    if (const int failed = region_.lost().open(); failed != 0)
        return fail(failed, "cannot make an event: %s", std::strerror(failed));
    return session_.start(to, chosen, until);
}

int leg::open(const terms &wanted, const replica::deadline &until)
{
    replica::request r;
    r.type = wanted.create ? replica::request_type::create : replica::request_type::open;
    r.session.features |= replica::feature_record;
    r.session.pool_size = wanted.pool_size;
    r.session.lanes = wanted.lanes;
    r.session.devices = settings_.devices;
    r.session.keep_alive_ms = session_.keeps_alive() ? session::keep_alive_ms : 0;
    r.session.attributes = wanted.attributes;
    r.session.set_name.assign(set_name_.view());
    replica::answer a;
    if (session_.request(r, &a, until) != 0)
        return -1;
    if (a.session.lanes > r.session.lanes || a.session.pool_size < wanted.pool_size)
        return fail(EPROTO, "the target answered with more lanes, or a smaller pool, than asked for");
    session_answer_ = a.session;
    open_ = true;
    created_ = wanted.create;
    return 0;
}

int leg::learn(const replica::deadline &until)
{
    if (session_.keeps_record()) {
        replica::request r;
        r.type = replica::request_type::mirror_status;
        r.mirror.set_name.assign(set_name_.view());
        replica::answer a;
        if (session_.request(r, &a, until) != 0)
            return -1;
        known_ = a.mirror;
    }
    learned = true;
    return 0;
}

int leg::check_level() const
{
    const auto level = static_cast<int>(region_.level());
    if (level >= settings_.min_level)
        return 0;
    return fail(
            ENOTSUP, "%s has persistence level %d, RPMEM_MIN_LEVEL asks for %d", name(), level, settings_.min_level);
}

int leg::connect(const terms &wanted, const replica::deadline &until)
{
    if (has_header() && wanted.size <= replica::header_size)
        return fail(EINVAL, "the pool is not larger than its header");
    replica::region::terms memory;
    memory.address = static_cast<std::byte *>(wanted.address);
    memory.size = wanted.size;
    memory.depth = static_cast<std::uint32_t>(std::clamp(settings().queue_depth, 2, longest_queue));
    memory.timeout_ms = settings_.timeout_ms;
    replica::error_text problem;
    if (const int failed = region_.open(session_answer_, memory, until, &problem); failed != 0)
        return fail(failed, "%s", problem.c_str());
    connected_ = check_level() == 0 && session_.watch() == 0;
    return connected_ ? 0 : -1;
}

int leg::commit(const replica::set_uuid &set, std::uint64_t pool_size, const replica::mirror_record &record)
{
    replica::request r;
    r.type = replica::request_type::mirror_commit;
    r.mirror.set = set;
    r.mirror.copy = number;
    r.mirror.length = pool_size;
    r.mirror.record = record;
    r.mirror.set_name.assign(set_name_.view());
    replica::answer a;
    if (session_.request(r, &a) != 0)
        return -1;
    known_ = a.mirror;
    return 0;
}

int leg::set_attributes(const replica::pool_attributes &attributes)
{
    replica::request r;
    r.type = replica::request_type::set_attributes;
    r.attributes = attributes;
    replica::answer a;
    return session_.request(r, &a);
}

int leg::tell_close(bool remove)
{
    replica::request r;
    r.type = replica::request_type::close;
    r.remove = remove;
    replica::answer a;
    return session_.request(r, &a);
}

// On one host the device of this process waits for a peer that was stopped in the middle of an operation on memory that
// both share: nothing may be torn down under it before it is dead.
void leg::give_up_silent_target(int failed)
{
    if (failed == ETIMEDOUT)
        session_.kill_daemon();
}

void leg::undo(int failed)
{
    give_up_silent_target(failed);
    region_.close();
    if (open_)
        tell_close(created_);
}

int leg::close()
{
    give_up_silent_target(lost());
    region_.close();
    const int closed = lost() == 0 ? tell_close(false) : fail(ECONNRESET, "%s was lost before", name());
    const int failed = errno;
    session_.finish();
    errno = failed;
    return closed;
}

} // namespace rpmem
