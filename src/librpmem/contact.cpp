// SPDX-License-Identifier: BSD-3-Clause
// Steps of an opening that contact all targets, each in a thread of its own.
#include "opening.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/resource.h>

#include "failure.hpp"
#include "group/step.hpp"
#include "log.hpp"

using namespace rpmem;
using group::bit_of;
using group::copy_mask;
using group::each_copy;

namespace
{

// Descriptors that a lane uses, and those that are reserved for other purposes.
constexpr rlim_t descriptors_per_lane = 6;
constexpr rlim_t other_descriptors = 64;

// Time, in milliseconds, that optional targets get after the last required target has responded.
constexpr int grace_ms = 3000;

unsigned max_lanes_for_fd_limit(unsigned replicas)
{
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= other_descriptors + descriptors_per_lane * replicas)
        return 1;
    return static_cast<unsigned>(std::min<rlim_t>(
            (limit.rlim_cur - other_descriptors) / descriptors_per_lane / replicas, replica::max_lanes));
}

} // namespace

// Runs f() for several targets concurrently, returns those for which it succeeded, and stores failures in the replicas.
copy_mask opening::on_each_target(copy_mask of, int timeout_ms, const target_function &f,
        const std::function<bool(copy_mask succeeded)> &is_complete)
{
    const auto run = [&](unsigned index, const replica::deadline &until) {
        remote_replica &rep = replicas_[index];
        if (guarded([&] { return f(rep, until); }) == 0)
            return true;
        rep.save_error();
        if (count_ > 1)
            log_line(log_level::warning, "%s: %s", rep.name(), rep.reason.c_str());
        return false;
    };
    return group::run_concurrently(of, replica::deadline(timeout_ms), grace_ms, run, is_complete);
}

remote_replica::session_params opening::session_params_of(bool create, const replica::pool_attributes &attributes) const
{
    const unsigned lanes = std::min({lanes_ == 0 ? params_.lanes : lanes_, static_cast<unsigned>(settings().max_lanes),
            max_lanes_for_fd_limit(count_)});
    return {params_.address, params_.size, pool_size_, lanes, create, attributes};
}

// Returns whether all targets in sync in the newest record have responded, so that no newer record can exist.
bool opening::has_required(copy_mask responded) const
{
    replica::mirror_record newest;
    copy_mask with_record = 0;
    each_copy(responded, [&](unsigned index) {
        const replica::mirror_state &state = replicas_[index].last_state();
        if (state.committed.epoch == 0)
            return;
        with_record |= bit_of(state.copy);
        if (is_newer(state.committed, newest))
            newest = state.committed;
    });
    return group::has_required(newest, newest.in_sync, ~copy_mask{0}, with_record);
}

// Starts the daemons, and with several targets reads their membership records. Returns the targets that responded.
copy_mask opening::start()
{
    // Assigned in the order of the targets, because the threads run in any order.
    std::string commands[target_list::max_targets];
    for (unsigned i = 0; i < count_; ++i) {
        replicas_[i].number = i;
        commands[i] = next_command();
    }
    const auto start_one = [&](remote_replica &rep, const replica::deadline &until) {
        replica::target to = targets_.targets[rep.number];
        to.local = to.local || settings_.exec;
        return rep.start(to, commands[rep.number], count_ > 1, until);
    };
    return on_each_target(bit_of(count_) - 1, settings_.session_timeout_ms(), start_one,
            [&](copy_mask responded) { return !params_.create && has_required(responded); });
}

copy_mask opening::open_pools(copy_mask of)
{
    return on_each_target(
            of, settings_.session_timeout_ms(),
            [&](remote_replica &rep, const replica::deadline &until) { return open_pool(rep, until); },
            [&](copy_mask responded) { return !params_.create && has_required(responded); });
}

// Opens the pool and reads its record again: while it is open, no other client can change the record. With several
// targets, a pool that cannot be opened is not a failure of the target.
int opening::open_pool(remote_replica &rep, const replica::deadline &until) const
{
    rep.record_fetched = false;
    const bool use_first_attributes = params_.create && &rep != &replicas_[0];
    if (rep.open(session_params_of(
                         params_.create, use_first_attributes ? replicas_[0].attributes() : params_.attributes),
                until) != 0) {
        if (count_ == 1 || params_.create || errno == ETIMEDOUT)
            return -1;
        rep.save_error();
    }
    return rep.fetch_record(until);
}

// Connects the data paths. A target that cannot be connected is lost. Returns the connected targets.
copy_mask opening::connect(copy_mask of)
{
    const copy_mask connected =
            on_each_target(of, settings_.timeout_ms, [&](remote_replica &rep, const replica::deadline &until) {
                return rep.connect(session_params_of(false, {}), until);
            });
    each_copy(
            of & ~connected, [&](unsigned index) { replicas_[index].region().lost().declare(replicas_[index].error); });
    each_copy(connected, [&](unsigned index) {
        remote_replica &rep = replicas_[index];
        lanes_ = lanes_ == 0 ? rep.region().lanes() : std::min(lanes_, rep.region().lanes());
        log_line(log_level::info, "%s: opened: %u lanes, method %u, level %u", rep.name(), rep.region().lanes(),
                static_cast<unsigned>(rep.region().method()), static_cast<unsigned>(rep.region().level()));
    });
    return connected;
}
