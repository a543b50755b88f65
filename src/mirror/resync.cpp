// SPDX-License-Identifier: BSD-3-Clause
// Targets that come and go while the program writes.
#include "compare.hpp"

#include "failure.hpp"

using namespace mirror;
using replica::request_type;

namespace
{

// How often the cursor becomes durable on the target.
constexpr std::uint64_t cursor_bytes = 64 << 20;
constexpr std::int64_t cursor_ms = 5000;

} // namespace

remote_copy &rpma_mirror::target(unsigned copy)
{
    if (copy >= copies_.size() || !copies_[copy])
        throw failure(RPMA_MIRROR_E_NOT_FOUND, "there is no target with copy " + std::to_string(copy));
    return *copies_[copy];
}

rpma_mirror::work_on_copy::work_on_copy(rpma_mirror &of, unsigned number) : copy(take(of, number)) {}

rpma_mirror::work_on_copy::~work_on_copy()
{
    copy.busy = false;
}

remote_copy &rpma_mirror::work_on_copy::take(rpma_mirror &of, unsigned number)
{
    of.membership_.refuse_holder();
    const std::lock_guard hold(of.membership_);
    remote_copy &found = of.target(number);
    if (found.busy.exchange(true))
        throw failure(RPMA_MIRROR_E_BUSY, "a resync or a verification of the copy runs already");
    return found;
}

template<class F>
void rpma_mirror::without_lanes(F &&f)
{
    std::vector<std::unique_lock<std::mutex>> holds;
    for (program_lane &lane : lanes_)
        holds.emplace_back(lane.lock);
    f();
}

// What a device has pinned are the pages that were there before. If it cannot have the new ones, because another page
// of the copy is bad, too, no flush begins before that is repaired. The lock of the membership is held.
void rpma_mirror::register_again()
{
    const deadline until(settings_.operation_ms);
    int failed = 0;
    without_lanes([&] {
        for (const auto &c : copies_) {
            if (!c || !c->region || c->region->lost().error() != 0)
                continue;
            const std::lock_guard own(c->own_lane);
            if (const int error = c->region->register_again(until); error != 0)
                failed = error;
        }
        unregistered_ = failed;
    });
}

void rpma_mirror::connect_again(remote_copy &c, const deadline &until)
{
    auto control = std::make_unique<channel>(c.where, read_key(settings_.key_file), until);
    const replica::mirror_state known = control->ask(about_promise(c, request_type::mirror_prepare), until).mirror;
    connected made = attach(c, *control, until);
    const std::lock_guard hold(membership_);
    c.known = known;
    without_lanes([&] {
        const std::lock_guard own(c.own_lane);
        std::swap(c.control, control);
        std::swap(c.region, made.region);
        c.level = made.level;
        for (program_lane &lane : lanes_)
            for (auto &tickets : lane.under_way)
                tickets[c.where.copy] = 0;
    });
}

void rpma_mirror::resync(unsigned copy, const limits &within)
{
    const work_on_copy work(*this, copy);
    remote_copy &c = work.copy;
    if (const int code = over(); code != 0)
        throw failure(code, last_failure());
    {
        const std::lock_guard hold(membership_);
        if (is_synced(copy) && (roles_.load().awaited & c.bit()) != 0)
            return;
    }
    try {
        connect_again(c, deadline(settings_.open_ms));
    } catch (const failure &problem) {
        c.last_error = problem.code();
        if (problem.code() == RPMA_MIRROR_E_FENCED) {
            const std::lock_guard hold(membership_);
            end(problem.code(), problem.what(), RPMA_MIRROR_EVENT_FENCED, copy);
        }
        throw;
    }
    try {
        bring_level(c, within);
        join(c);
    } catch (const failure &problem) {
        const std::lock_guard hold(membership_);
        const roles now = roles_;
        set_roles(now.awaited, now.syncing & ~c.bit());
        if (problem.code() != RPMA_MIRROR_E_CANCELED)
            c.last_error = problem.code();
        throw;
    }
    c.last_error = 0;
    events_.forget_errors(copy);
    ++counted_.resyncs;
}

void rpma_mirror::bring_level(remote_copy &c, const limits &within)
{
    const std::uint64_t resumed_at = c.resumable ? c.cursor : 0;
    if (!c.resumable) {
        c.cursor = 0;
        c.clear_dirty();
        c.resumable = true;
    }
    {
        const std::lock_guard hold(membership_);
        const roles now = roles_;
        set_roles(now.awaited, now.syncing | c.bit());
        events_.tell(RPMA_MIRROR_EVENT_RESYNC_STARTED, c.where.copy, record_);
    }
    comparison job(c, direction::to_target, within);
    job.total = home_.length() - resumed_at;
    compare_dirty(job, resumed_at);
    std::uint64_t told_at = c.cursor;
    std::int64_t told_ms = replica::now_ms();
    job.level_up_to = [&](std::uint64_t end) {
        // Whoever asks for the state sees it.
        std::atomic_ref(c.cursor) = end;
        if (c.cursor - told_at >= cursor_bytes || replica::now_ms() - told_ms >= cursor_ms) {
            tell_cursor(c);
            told_at = c.cursor;
            told_ms = replica::now_ms();
        }
    };
    compare(job, c.cursor, home_.length());
    job.step(RPMA_MIRROR_PHASE_COMMIT);
}

void rpma_mirror::tell_cursor(remote_copy &c)
{
    replica::request r = about_promise(c, request_type::mirror_cursor);
    r.mirror.offset = c.cursor;
    const replica::mirror_state known = c.control->ask(r, deadline(settings_.open_ms)).mirror;
    const std::lock_guard hold(membership_);
    c.known = known;
}

// What was flushed since an interrupted resync had compared it.
void rpma_mirror::compare_dirty(comparison &job, std::uint64_t end)
{
    remote_copy &c = job.copy;
    for (std::size_t word = 0; word < c.dirty_words(); ++word) {
        std::uint64_t bits = c.take_dirty(word);
        try {
            for (; bits != 0; bits &= bits - 1) {
                const std::uint64_t at =
                        (word * 64 + static_cast<unsigned>(std::countr_zero(bits))) * replica::segment_size;
                if (at >= end)
                    continue;
                const std::uint64_t segment_end = std::min(at + replica::segment_size, home_.length());
                job.total += segment_end - at;
                compare(job, at, segment_end);
            }
        } catch (const failure &) {
            c.put_dirty(word, bits);
            throw;
        }
    }
}

// From here on flushes wait for the copy, each on a lane of its own. Only when what was sent before is durable, and all
// have the record that says so, the copy is in sync.
void rpma_mirror::join(remote_copy &c)
{
    const std::lock_guard hold(membership_);
    {
        const std::lock_guard own(c.own_lane);
        if (const int error = c.lane().drain(); error != 0)
            throw failure(code_of_link(error), "target " + c.where.name() + " is lost", error);
        const roles now = roles_;
        if ((now.syncing & c.bit()) == 0)
            throw failure(RPMA_MIRROR_E_CONNECTION, "target " + c.where.name() + " is lost");
        set_roles(now.awaited | c.bit(), now.syncing & ~c.bit());
    }
    record next = record_;
    next.in_sync = static_cast<std::uint16_t>(next.in_sync | c.bit());
    next.members = static_cast<std::uint16_t>(next.members | c.bit());
    try {
        commit_everywhere(next, static_cast<std::uint16_t>(record_.in_sync & ~home_bit()));
    } catch (const failure &) {
        take_back(c);
        throw;
    }
    if (!is_synced(c.where.copy))
        throw failure(RPMA_MIRROR_E_CONNECTION, "target " + c.where.name() + " was lost again");
    c.resumable = false;
    c.cursor = 0;
    events_.tell(RPMA_MIRROR_EVENT_IN_SYNC, c.where.copy, record_);
}

// A record with the copy may be durable somewhere: nothing is acknowledged without it before there is a newer one.
void rpma_mirror::take_back(remote_copy &c)
{
    const auto before = static_cast<std::uint16_t>(record_.in_sync & ~home_bit());
    const int code = over_ != 0 ? 0 : guarded([&] { commit_everywhere(record_, before); });
    if (code != 0)
        end(code, last_failure(), code == RPMA_MIRROR_E_FENCED ? RPMA_MIRROR_EVENT_FENCED : RPMA_MIRROR_EVENT_NO_TARGET,
                c.where.copy);
    const roles now = roles_;
    set_roles(now.awaited & ~c.bit(), now.syncing);
}

void rpma_mirror::add_target(unsigned copy, const char *place, const char *set_name, const limits &within)
{
    membership_.refuse_holder();
    settings wider = settings_;
    wider.add_target(copy, place, set_name);
    auto made = std::make_unique<remote_copy>(wider.targets.back());
    made->set_length(home_.length());
    const deadline until(settings_.open_ms);
    channel control(made->where, read_key(settings_.key_file), until);
    create_copy(*made, control, home_.length(), until);
    {
        const std::lock_guard hold(membership_);
        if (copies_[copy])
            throw failure(RPMA_MIRROR_E_EXISTS, "there is a copy " + std::to_string(copy));
        without_lanes([&] { copies_[copy] = std::move(made); });
        settings_.targets.push_back(wider.targets.back());
        const roles now = roles_;
        set_roles(now.awaited, now.syncing);
        events_.tell(RPMA_MIRROR_EVENT_ADDED, copy, record_);
    }
    resync(copy, within);
}

void rpma_mirror::remove_target(unsigned copy)
{
    membership_.refuse_holder();
    const std::lock_guard hold(membership_);
    remote_copy &c = target(copy);
    if (c.busy)
        throw failure(RPMA_MIRROR_E_BUSY, "a resync or a verification of the copy runs");
    if (const int code = over(); code != 0)
        throw failure(code, last_failure());
    record next = record_;
    next.in_sync = static_cast<std::uint16_t>(next.in_sync & ~c.bit());
    next.members = static_cast<std::uint16_t>(next.members & ~c.bit());
    const std::uint32_t rest = next.in_sync & ~home_bit();
    commit_everywhere(next, static_cast<std::uint16_t>(rest == 0 ? 0 : record_.in_sync & ~home_bit()), 0, c.bit());
    std::unique_ptr<remote_copy> gone;
    without_lanes([&] {
        gone = std::move(copies_[copy]);
        const roles now = roles_;
        set_roles(now.awaited & ~gone->bit(), now.syncing & ~gone->bit());
    });
    std::erase_if(settings_.targets, [copy](const target_settings &t) { return t.copy == copy; });
    events_.tell(RPMA_MIRROR_EVENT_REMOVED, copy, record_);
}
