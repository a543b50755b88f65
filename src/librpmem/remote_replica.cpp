// SPDX-License-Identifier: BSD-3-Clause
#include "remote_replica.hpp"

#include <algorithm>
#include <cstring>

#include "failure.hpp"

namespace rpmem
{

namespace
{

constexpr int max_queue_depth = 1024; // every device supports it

int fail_outdated()
{
    return fail(ENOTSUP, "rpmemd: several targets not supported by this version (update it)");
}

} // namespace

remote_replica::remote_replica(const call_settings &settings, std::string_view target, const char *set_name)
    : settings_(settings), name_(replica_name(target, set_name)), set_name_(set_name),
      session_(settings, region_.lost())
{
}

void remote_replica::save_error()
{
    error = errno;
    reason.assign(last_failure());
    kill_unresponsive_daemon(error);
    errno = error;
}

int remote_replica::start(
        const replica::target &to, const std::string &daemon, bool several, const replica::deadline &until)
{
    if (const int failed = region_.lost().open(); failed != 0)
        return fail(failed, "cannot create an event: %s", std::strerror(failed));
    if (session_.start(to, daemon, until) != 0)
        return -1;
    if (!several)
        return 0;
    return session_.keeps_record() ? fetch_record(until) : fail_outdated();
}

int remote_replica::open(const session_params &params, const replica::deadline &until)
{
    replica::request r;
    r.set_set_name(set_name_);
    replica::wire::open_request &body = params.create ? *r.mutable_create() : *r.mutable_open();
    body.set_features(replica::feature_keep_alive | replica::feature_record);
    body.set_pool_size(params.pool_size);
    body.set_lanes(params.lanes);
    body.set_devices(settings_.devices);
    body.set_keep_alive_ms(session_.keeps_alive() ? session::keep_alive_ms : 0);
    if (params.create)
        to_wire(params.attributes, *body.mutable_attributes());
    replica::response response;
    if (session_.request(r, &response, until) != 0)
        return -1;
    const replica::wire::region &target = response.region();
    if (target.lanes() > params.lanes || target.size() < params.pool_size)
        return fail(EPROTO, "target: invalid response: more lanes, or a smaller pool, than requested");
    target_ = target;
    attributes_ = replica::from_wire(target.attributes());
    open_ = true;
    created_ = params.create;
    return 0;
}

int remote_replica::fetch_record(const replica::deadline &until)
{
    if (session_.keeps_record()) {
        replica::request r;
        r.set_set_name(set_name_);
        r.mutable_get_state();
        if (request_state(r, until) != 0)
            return -1;
    }
    record_fetched = true;
    return 0;
}

int remote_replica::prepare(const replica::mirror_promise &promise, const replica::deadline &until)
{
    if (!session_.serves_group())
        return fail_outdated();
    replica::request r;
    r.set_set_name(set_name_);
    to_wire(promise, *r.mutable_promise());
    r.mutable_prepare();
    return request_state(r, until);
}

int remote_replica::request_state(const replica::request &r, const replica::deadline &until)
{
    replica::response response;
    if (session_.request(r, &response, until) != 0)
        return -1;
    last_state_ = replica::from_wire(response.state());
    return 0;
}

int remote_replica::connect(const session_params &params, const replica::deadline &until)
{
    if (has_header() && params.size <= replica::header_size)
        return fail(EINVAL, "pool size: not larger than the pool header");
    replica::region::settings memory;
    memory.address = static_cast<std::byte *>(params.address);
    memory.size = params.size;
    memory.depth = static_cast<std::uint32_t>(std::clamp(settings().queue_depth, 2, max_queue_depth));
    memory.devices = settings_.devices;
    memory.timeout_ms = settings_.timeout_ms;
    replica::error_text open_error;
    if (const int failed = region_.open(target_, memory, until, &open_error); failed != 0)
        return fail(failed, "%s", open_error.c_str());
    const auto level = static_cast<int>(region_.level());
    if (level < settings_.min_level)
        return fail(
                ENOTSUP, "%s: persistence level %d is below RPMEM_MIN_LEVEL=%d", name(), level, settings_.min_level);
    connected_ = session_.watch() == 0;
    return connected_ ? 0 : -1;
}

int remote_replica::commit(const replica::set_uuid &set, std::uint64_t pool_size, const replica::mirror_record &record)
{
    return guarded([&] {
        replica::request r;
        r.set_set_name(set_name_);
        r.set_set(replica::bytes_of(set));
        replica::wire::commit_request &body = *r.mutable_commit();
        body.set_copy(number);
        body.set_length(pool_size);
        to_wire(record, *body.mutable_record());
        replica::response response;
        return session_.request(r, &response);
    });
}

int remote_replica::set_attributes(const replica::pool_attributes &attributes)
{
    return guarded([&] {
        replica::request r;
        to_wire(attributes, *r.mutable_set_attributes());
        replica::response response;
        return session_.request(r, &response);
    });
}

int remote_replica::hash(replica::range of, std::string *hashes)
{
    return guarded([&] {
        replica::request r;
        r.mutable_hash()->set_offset(of.offset);
        r.mutable_hash()->set_length(of.length);
        replica::response response;
        const int result = session_.request(r, &response);
        *hashes = response.hashes();
        return result;
    });
}

int remote_replica::send_close(bool remove)
{
    return guarded([&] {
        replica::request r;
        r.mutable_close()->set_remove(remove);
        replica::response response;
        return session_.request(r, &response, replica::deadline(settings_.session_timeout_ms()));
    });
}

// On one host, the device of this process waits for a peer that was stopped inside an operation on shared memory. The
// peer must be killed before the connection is torn down.
void remote_replica::kill_unresponsive_daemon(int failed)
{
    if (failed == ETIMEDOUT)
        session_.kill_daemon();
}

void remote_replica::rollback(int failed)
{
    kill_unresponsive_daemon(failed);
    region_.close();
    if (open_)
        send_close(created_);
}

int remote_replica::close()
{
    kill_unresponsive_daemon(lost());
    region_.close();
    const int closed =
            lost() == 0 ? send_close(false) : fail(ECONNRESET, "%s: replica was lost before the close", name());
    const int failed = errno;
    session_.finish();
    errno = failed;
    return closed;
}

} // namespace rpmem
