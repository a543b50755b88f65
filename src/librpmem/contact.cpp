// SPDX-License-Identifier: BSD-3-Clause
// The steps of an opening in which all targets are contacted, each by a thread.
#include "contact.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/resource.h>

#include "failure.hpp"

using namespace rpmem;

namespace
{

// Descriptors of a process that a lane uses, and those that are not for lanes.
constexpr rlim_t descriptors_per_lane = 6;
constexpr rlim_t other_descriptors = 64;
unsigned max_lanes_for_fd_limit(unsigned legs)
{
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= other_descriptors + descriptors_per_lane * legs)
        return 1;
    return static_cast<unsigned>(
            std::min<rlim_t>((limit.rlim_cur - other_descriptors) / descriptors_per_lane / legs, replica::max_lanes));
}

} // namespace

leg::terms rpmem_pool::terms_of(const wanted &w, bool create, const replica::pool_attributes &attributes) const
{
    const unsigned lanes = std::min({lanes_ == 0 ? w.lanes : lanes_, static_cast<unsigned>(settings().max_lanes),
            max_lanes_for_fd_limit(count_)});
    return {w.address, w.size, pool_size_, lanes, create, attributes};
}

// Returns whether all targets that are in sync in the newest record have responded: no other one can have a newer one.
bool rpmem_pool::has_needed(legs responded) const
{
    replica::mirror_record newest;
    std::uint32_t with_record = 0;
    each(responded, [&](unsigned index) {
        const replica::mirror_state &known = legs_[index]->known();
        if (known.committed.epoch == 0)
            return;
        with_record |= 1U << known.copy;
        if (is_newer(known.committed, newest))
            newest = known.committed;
    });
    return newest.epoch != 0 && (newest.in_sync & ~with_record) == 0;
}

// Starts the daemons, and with several targets reads what each remembers of the pool. Returns those that responded.
rpmem_pool::legs rpmem_pool::start(const target_list &targets, bool create)
{
    // In the order of the targets, whichever of the threads is first.
    daemon_command commands[target_list::most];
    for (unsigned i = 0; i < count_; ++i) {
        legs_[i]->number = i;
        commands[i] = next_command();
    }
    const auto start_one = [&](leg &l, const replica::deadline &until) {
        replica::target to = targets.targets[l.number];
        to.local = to.local || settings_.exec;
        if (l.start(to, commands[l.number], until) != 0)
            return -1;
        if (count_ == 1)
            return 0;
        return l.keeps_record() ? l.learn(until)
                                : fail(ENOTSUP, "rpmemd there is too old to have one of several copies: update it");
    };
    return on_each_target((1U << count_) - 1, settings_.session_timeout_ms(), start_one,
            [&](legs responded) { return !create && has_needed(responded); });
}

rpmem_pool::legs rpmem_pool::open_pools(legs of, const wanted &w)
{
    return on_each_target(
            of, settings_.session_timeout_ms(),
            [&](leg &l, const replica::deadline &until) { return open_pool(l, w, until); },
            [&](legs responded) { return !w.create && has_needed(responded); });
}

// Reads the record again once no other client can have the pool. A pool that cannot be opened is not a failure of one
// of several targets.
int rpmem_pool::open_pool(leg &l, const wanted &w, const replica::deadline &until) const
{
    l.learned = false;
    const bool like_first = w.create && &l != legs_[0].get();
    if (l.open(terms_of(w, w.create, like_first ? legs_[0]->attributes() : w.attributes), until) != 0) {
        if (count_ == 1 || w.create || errno == ETIMEDOUT)
            return -1;
        l.keep_failure();
    }
    return l.learn(until);
}

// Connects the data paths. A target that cannot be connected is lost. Returns the others.
rpmem_pool::legs rpmem_pool::connect(legs of, const wanted &w)
{
    const legs connected = on_each_target(
            of, settings_.timeout_ms,
            [&](leg &l, const replica::deadline &until) { return l.connect(terms_of(w, false, {}), until); },
            [](legs) { return false; });
    each(of & ~connected, [&](unsigned index) { legs_[index]->region().lost().declare(legs_[index]->error); });
    each(connected, [&](unsigned index) {
        leg &l = *legs_[index];
        lanes_ = lanes_ == 0 ? l.region().lanes() : std::min(lanes_, l.region().lanes());
        data_begin_ = l.region().data_begin();
        log_line(log_level::info, "%s: open, %u lanes, method %u, level %u", l.name(), l.region().lanes(),
                static_cast<unsigned>(l.region().method()), static_cast<unsigned>(l.region().level()));
    });
    return connected;
}
