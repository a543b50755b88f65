// SPDX-License-Identifier: BSD-3-Clause
// Faults that last: machines open, promote, fence, remove, resync and close while targets do not respond.
#include "session.hpp"

#include <algorithm>

namespace simulation
{

namespace
{

constexpr time_us slower = 30 * second;
// Maximum delay of a fault after the start of the work on the set.
constexpr time_us latest_begin = 20 * ms;

} // namespace

// Starts a fault that lasts: the daemon is stopped or killed, or its packets are dropped or delayed.
void scenario::begin_to_last(process &target)
{
    const unsigned machine = target.machine;
    switch (world_.below(4)) {
    case 0:
        world_.log("%s is stopped, and stays so", target.name.c_str());
        return world_.stop(target);
    case 1:
        world_.log("%s ends, and stays away", target.name.c_str());
        return world_.kill(target, false);
    case 2:
        world_.log("%s is cut off, and stays so", target.name.c_str());
        for (unsigned m = 0; m < writers; ++m) {
            network_.cut(m, machine, true);
            network_.cut(machine, m, true);
        }
        return;
    default:
        world_.log("%s is slow, and stays so", target.name.c_str());
        for (unsigned m = 0; m < writers; ++m)
            network_.slow(machine, m, slower);
    }
}

void scenario::last()
{
    // A forced record shares no target with the record before. An operator who overrides copies must restore them
    // first.
    const std::uint64_t forced = history_.forcings;
    for (std::uint64_t turns = 1 + world_.below(3); turns > 0 && history_.forcings == forced; --turns) {
        calm_down();
        // Waits until data that dead writers have sent has arrived.
        world_.run([] { return false; }, 2 * slower);
        silent_ = static_cast<std::uint32_t>(1 + world_.below((1U << targets_) - 2)) << 1; // never all
        silent_from_begin_ = !world_.one_in(3);
        for (unsigned m = writers; m < writers + targets_; ++m) {
            if ((silent_ >> copy_of(m) & 1) == 0)
                continue;
            if (silent_from_begin_)
                begin_to_last(*processes_[m]);
            else
                world_.at(world_.between(0, latest_begin), [this, p = processes_[m]] { begin_to_last(*p); });
        }
        const auto m = static_cast<unsigned>(world_.below(writers));
        start_writer(m, [this, m] { go_without(m); });
        if (!world_.run([&] { return !writer_lives(); }, 200 * second))
            world_.violated("a machine does not come to an end while a target is silent");
        world_.run([] { return false; }, 2 * latest_begin);
    }
}

void scenario::check_refusal(const char *what, int code, const std::vector<replica::mirror_promise> &before) const
{
    world_.log("%s is refused: %s", what, rpma_mirror_error_message());
    if (!silent_from_begin_)
        return;
    constexpr int expected[] = {
            RPMA_MIRROR_E_INCOMPLETE, RPMA_MIRROR_E_UNFOUND, RPMA_MIRROR_E_UNFENCED, RPMA_MIRROR_E_CHANGED};
    if (std::ranges::find(expected, code) == std::end(expected))
        world_.violated("%s is refused: %s", what, rpma_mirror_error_message());
    // A target compares its parts when it promises.
    const bool found_replaced = code == RPMA_MIRROR_E_CHANGED && history_.replaced() != 0;
    if (!found_replaced && history_.promises() != before)
        world_.violated("%s is refused, and a copy has made a promise for it", what);
}

// Returns whether a silent target is in sync in the newest record of these copies, with or without the copies on silent
// targets.
bool scenario::needs_silent(std::uint32_t visible) const
{
    const auto needed = [&](std::uint32_t of) { return replica::required_targets(history_.newest_record(of)); };
    return ((needed(visible) | needed(visible & ~silent_)) & silent_) != 0;
}

void scenario::fence(const session &s)
{
    const bool needs_force = needs_silent(all_targets());
    const auto before = history_.promises();
    std::uint64_t epoch = 0;
    rpma_mirror_cfg *const cfg = configure(s.machine);
    rpma_mirror_cfg_set_timeouts(cfg, 1000, open_ms_);
    int code = rpma_mirror_fence(cfg, 0, &epoch);
    if (code != 0 && !needs_force)
        world_.violated("a silent target that is not needed prevents a fence: %s", rpma_mirror_error_message());
    if (code != 0) {
        check_refusal("a fence", code, before);
        code = rpma_mirror_fence(cfg, RPMA_MIRROR_F_FORCE, &epoch);
    }
    if (code != 0)
        world_.violated("a fence fails with force: %s", rpma_mirror_error_message());
}

// Each call that does not need a silent target must succeed. With force, each call must succeed.
void scenario::go_without(unsigned machine)
{
    session s;
    s.machine = machine;
    const unsigned copy = copy_of(machine);
    const std::uint32_t visible = all_targets() | 1U << copy;
    const replica::mirror_record newest = history_.newest_record(visible & ~silent_);
    // The writer ended after the arbiter had stored its record, and before any copy had. Its promise is in the local
    // copy.
    const bool own = newest.writer_copy == copy &&
                     (history_.record_of(copy) == newest ||
                             history_.promises()[copy] == replica::mirror_promise{newest.epoch, newest.writer});
    const bool alone = newest.policy == replica::mirror_policy::availability && !newest.closed &&
                       (keeper::instance == nullptr || keeper::instance->newest != newest);
    // The fault may also begin in the middle of a forced call.
    const bool at_once = !silent_from_begin_ && world_.one_in(2);
    if (!at_once && world_.one_in(3))
        fence(s);
    const std::uint32_t sources = replica::required_targets(newest) & ~history_.replaced();
    const bool needs_force = needs_silent(visible) || (!own && (alone || sources == 0));
    const auto before = history_.promises();
    // A writer may have begun to grow the set to another length, or left a local file that was replaced.
    if (grows_ && !at_once && world_.one_in(3) && history_.requested_length <= history_.set_length())
        switch (const int code = grow_closed(machine)) {
        case 0:
        case RPMA_MIRROR_E_CHANGED:
            return;
        default:
            if (!needs_force)
                world_.violated(
                        "a silent target that is not needed prevents a growth: %s", rpma_mirror_error_message());
            check_refusal("a growth", code, before);
            if (!silent_from_begin_)
                return;
        }
    const time_us began = world_.now();
    if (!open(s, 1, at_once ? RPMA_MIRROR_F_FORCE : 0)) {
        if (!needs_force || at_once)
            world_.violated("a silent target that is not needed prevents the opening: %s", rpma_mirror_error_message());
        check_refusal("an opening", s.code, before);
        if (!open(s, 1, RPMA_MIRROR_F_FORCE))
            world_.violated("an opening fails with force: %s", rpma_mirror_error_message());
    } else if (silent_from_begin_ && !needs_force && keeper::instance == nullptr &&
               world_.now() - began >= open_ms_ / 4 * ms)
        world_.violated("an opening of %u ms waits %ld ms for a target that is not needed", open_ms_,
                (world_.now() - began) / ms);
    if (flush_whole(s) != 0)
        world_.violated("a flush fails while a target is silent: %s", rpma_mirror_error_message());
    // A target that becomes silent during a growth prevents it, until a flush has evicted the target.
    if (grows_ && grow(s) != 0 && (silent_from_begin_ || flush_whole(s) != 0 || grow(s) != 0))
        world_.violated("the set does not grow while a target is silent: %s", rpma_mirror_error_message());
    for (unsigned target = 1; target <= targets_; ++target) {
        if ((silent_ >> target & 1) == 0 || world_.one_in(2))
            continue;
        const bool drops = world_.one_in(2);
        const int code =
                drops ? rpma_mirror_remove_target(s.mirror, target) : rpma_mirror_resync(s.mirror, target, nullptr);
        world_.log("%s of %u: %s", drops ? "drop" : "resync", target, code == 0 ? "done" : rpma_mirror_error_message());
        if (drops && code != 0)
            world_.violated("a silent target cannot be dropped: %s", rpma_mirror_error_message());
    }
    if (rpma_mirror_unmap(&s.mirror) != 0)
        world_.violated("the set cannot be closed while a target is silent: %s", rpma_mirror_error_message());
}

} // namespace simulation
