// SPDX-License-Identifier: BSD-3-Clause
#include "resync.hpp"

#include "attach.hpp"

#include "failure.hpp"

using namespace mirror;

namespace
{

// Intervals after which the target stores the cursor, in bytes and in milliseconds.
constexpr std::uint64_t cursor_bytes = 64 << 20;
constexpr std::int64_t cursor_ms = 5000;

replica::deadline deadline_of(int timeout_ms, const limits &within)
{
    const replica::deadline whole(timeout_ms);
    return within.cancel == nullptr ? whole : replica::deadline(whole, within.cancel->fd());
}

constexpr timespec preemption_pause{0, 1'000'000};

remote_copy &claim(membership &of, const remote_copies &copies, unsigned number, replica::loss *preempt)
{
    of.reject_reentry();
    for (;;) {
        {
            const std::lock_guard guard(of);
            remote_copy &found = target_of(copies, number);
            if (!found.busy.exchange(true)) {
                found.preempt = preempt;
                return found;
            }
            if (found.preempt == nullptr || preempt != nullptr)
                throw failure(RPMA_MIRROR_E_BUSY, "a resync, verification or growth of the copy is already running");
            found.preempt->declare(ECANCELED);
        }
        nanosleep(&preemption_pause, nullptr);
    }
}

} // namespace

remote_copy &mirror::target_of(const remote_copies &copies, unsigned copy)
{
    if (copy >= copies.size() || !copies[copy])
        throw failure(RPMA_MIRROR_E_NOT_FOUND, "target of copy " + std::to_string(copy) + " not found");
    return *copies[copy];
}

exclusive_copy::exclusive_copy(membership &of, const remote_copies &copies, unsigned number, replica::loss *preempt)
    : copy(claim(of, copies, number, preempt)), membership_(of)
{
}

exclusive_copy::~exclusive_copy()
{
    const std::lock_guard guard(membership_);
    copy.preempt = nullptr;
    copy.busy = false;
}

resyncer::resyncer(set_parts &of, flusher &lanes, comparer &with)
    : parts_(of), settings_(of.configured), membership_(of.members), events_(of.published), local_(of.local),
      copies_(of.copies), flusher_(lanes), comparer_(with)
{
}

// Returns whether the target found its copy unchanged, with the record that this writer committed last or a newer one.
bool resyncer::is_unchanged(const remote_copy &c, const replica::mirror_record &found) const
{
    return replica::mirror_promise{found.epoch, found.writer} == membership_.writer.promise &&
           (found.in_sync & c.bit()) != 0 && !is_newer(c.last_state.committed, found);
}

void resyncer::connect_again(remote_copy &c, const deadline &until)
{
    auto control = std::make_unique<channel>(c.where, read_key(settings_.key_file), until);
    const replica::mirror_state last_state =
            replica::from_wire(control->call(membership_.writer.make_prepare_request(c), until).state());
    c.check_identity(last_state, membership_.writer.set);
    connected created = attach(parts_, c, *control, last_state.length, until);
    const std::lock_guard guard(membership_);
    c.was_synced = c.was_synced && is_unchanged(c, last_state.committed);
    c.last_state = last_state;
    flusher_.without_lanes([&] {
        const std::lock_guard lane_guard(c.resync_lane_lock);
        std::swap(c.control, control);
        std::swap(c.region, created.region);
        c.level = created.level;
        flusher_.drop_tickets(c);
    });
}

void resyncer::resync(unsigned copy, const limits &within)
{
    const exclusive_copy work(membership_, copies_, copy, within.yields ? within.cancel : nullptr);
    remote_copy &c = work.copy;
    throw_if_failed(membership_.check_usable());
    {
        const std::lock_guard guard(membership_);
        if (membership_.is_synced(copy) && (membership_.now().awaited & c.bit()) != 0)
            return;
    }
    try {
        connect_again(c, deadline_of(settings_.open_ms, within));
    } catch (const failure &error) {
        c.last_error = error.code();
        if (error.code() == RPMA_MIRROR_E_FENCED) {
            const std::lock_guard guard(membership_);
            membership_.end(error.code(), error.what(), RPMA_MIRROR_EVENT_FENCED, copy);
        }
        throw;
    }
    try {
        run_resync(c, within);
        join(c);
    } catch (const failure &error) {
        const std::lock_guard guard(membership_);
        const roles now = membership_.now();
        membership_.set_roles(now.awaited, now.syncing & ~c.bit());
        if (error.code() != RPMA_MIRROR_E_CANCELED)
            c.last_error = error.code();
        else if (within.cancel == nullptr)
            c.canceled = true;
        throw;
    }
    c.last_error = 0;
    c.canceled = false;
    events_.forget_errors(copy);
    ++parts_.counted.resyncs;
}

void resyncer::run_resync(remote_copy &c, const limits &within)
{
    if (!c.was_synced && !c.resumable) {
        c.clear_dirty();
        c.resumable = true;
        c.cursor = 0;
    }
    // The target resets its cursor when its parts may have been replaced.
    const std::uint64_t resumed_at = c.was_synced ? local_.length() : std::min(c.cursor, c.last_state.cursor);
    if (!c.was_synced)
        std::atomic_ref(c.cursor) = resumed_at;
    c.misses_flushes = true;
    {
        const std::lock_guard guard(membership_);
        const roles now = membership_.now();
        membership_.set_roles(now.awaited, now.syncing | c.bit());
        events_.publish(RPMA_MIRROR_EVENT_RESYNC_STARTED, c.where.copy, membership_.record());
    }
    comparison job(c, direction::to_target, within);
    job.total = local_.length() - resumed_at;
    compare_dirty(job, resumed_at);
    std::uint64_t stored_cursor = c.cursor;
    std::int64_t stored_at_ms = replica::now_ms();
    job.on_durable_up_to = [&](std::uint64_t end) {
        // The copy is not complete before compare_missed().
        if (end == local_.length())
            return;
        // Read concurrently by state().
        std::atomic_ref(c.cursor) = end;
        if (c.cursor - stored_cursor >= cursor_bytes || replica::now_ms() - stored_at_ms >= cursor_ms) {
            store_cursor(c, deadline_of(settings_.open_ms, within));
            stored_cursor = c.cursor;
            stored_at_ms = replica::now_ms();
        }
    };
    try {
        comparer_.compare(job, resumed_at, local_.length());
        job.on_durable_up_to = nullptr;
        compare_missed(job);
    } catch (const failure &error) {
        if (error.code() == RPMA_MIRROR_E_CANCELED && within.cancel == nullptr && !c.was_synced)
            guarded([&] { store_cursor(c, deadline(settings_.operation_ms)); });
        throw;
    }
    // The target then knows that its copy is complete, even if the record with it reaches only the arbiter.
    if (!c.was_synced) {
        std::atomic_ref(c.cursor) = local_.length();
        store_cursor(c, deadline_of(settings_.open_ms, within));
    }
    job.step(RPMA_MIRROR_PHASE_COMMIT);
}

// Compares the segments that flushes missed, first while flushes can miss others, then while they wait for the lane.
void resyncer::compare_missed(comparison &job)
{
    remote_copy &c = job.copy;
    for (const bool misses : {true, false}) {
        c.misses_flushes = misses;
        if (c.missed.exchange(false))
            compare_dirty(job, local_.length());
    }
}

void resyncer::store_cursor(remote_copy &c, const deadline &until)
{
    replica::request r = membership_.writer.make_promise_request(c);
    r.mutable_cursor()->set_offset(c.cursor);
    const replica::mirror_state last_state = replica::from_wire(c.control->call(r, until).state());
    const std::lock_guard guard(membership_);
    c.last_state = last_state;
}

// Compares the dirty segments below `end`. Restores the marks of those that were not compared.
void resyncer::compare_dirty(comparison &job, std::uint64_t end)
{
    remote_copy &c = job.copy;
    for (std::size_t word = 0; word < c.dirty_words(); ++word)
        job.total += static_cast<std::uint64_t>(std::popcount(c.dirty(word))) * replica::segment_size;
    for (std::size_t word = 0; word < c.dirty_words(); ++word) {
        std::uint64_t bits = c.take_dirty(word);
        try {
            while (bits != 0) {
                const int first = std::countr_zero(bits), count = std::countr_one(bits >> first);
                const std::uint64_t at = (word * 64 + static_cast<unsigned>(first)) * replica::segment_size;
                const std::uint64_t run_end = at + static_cast<unsigned>(count) * replica::segment_size;
                comparer_.compare(job, at, std::min(run_end, end));
                bits &= bits + (std::uint64_t{1} << first); // clears the lowest run of ones
            }
        } catch (const failure &) {
            c.put_dirty(word, bits);
            throw;
        }
    }
    job.total = job.done + local_.length() - end;
}

// Adds the copy to the set. Flushes now wait for it, each on its own lane. The copy is in sync only after all data sent
// before is durable and all copies have committed the record.
void resyncer::join(remote_copy &c)
{
    const std::lock_guard guard(membership_);
    // If the arbiter fails later, the mirror must fail.
    membership_.check_arbiter();
    {
        const std::lock_guard lane_guard(c.resync_lane_lock);
        if (const int error = c.lane().drain(); error != 0)
            lost(c, error);
        const roles now = membership_.now();
        if ((now.syncing & c.bit()) == 0)
            throw failure(RPMA_MIRROR_E_CONNECTION, "target " + c.where.name() + ": connection lost");
        // The target has confirmed all previous flushes. Later ones mark the ranges that it does not confirm.
        c.clear_dirty();
        c.was_synced = true;
        membership_.set_roles(now.awaited | c.bit(), now.syncing & ~c.bit());
    }
    replica::mirror_record next = membership_.record();
    next.in_sync = static_cast<std::uint16_t>(next.in_sync | c.bit());
    next.members = static_cast<std::uint16_t>(next.members | c.bit());
    try {
        membership_.commit_record(next, membership_.synced_targets());
    } catch (const failure &) {
        revert_join(c);
        throw;
    }
    if (!membership_.is_synced(c.where.copy))
        throw failure(RPMA_MIRROR_E_CONNECTION, "target " + c.where.name() + ": connection lost again");
    c.resumable = false;
    c.cursor = 0;
    events_.publish(RPMA_MIRROR_EVENT_IN_SYNC, c.where.copy, membership_.record());
}

// Reverts join(). A record with the copy might be durable: flushes need the copy until a newer record is committed.
void resyncer::revert_join(remote_copy &c)
{
    const auto before = membership_.synced_targets();
    const int code = membership_.terminal_error() != 0
                             ? 0
                             : guarded([&] { membership_.commit_record(membership_.record(), before); });
    if (code != 0)
        membership_.end(code, last_failure(),
                code == RPMA_MIRROR_E_FENCED ? RPMA_MIRROR_EVENT_FENCED : RPMA_MIRROR_EVENT_NO_TARGET, c.where.copy);
    const roles now = membership_.now();
    membership_.set_roles(now.awaited & ~c.bit(), now.syncing);
}

void resyncer::create_target(unsigned copy, const char *location, const char *set_name)
{
    membership_.reject_reentry();
    // Another thread may have removed the target.
    settings new_settings = [this] {
        const std::lock_guard guard(membership_);
        return settings_;
    }();
    new_settings.add_target(copy, location, set_name);
    auto created = std::make_unique<remote_copy>(new_settings.targets.back());
    const deadline until(settings_.open_ms);
    channel control(created->where, read_key(settings_.key_file), until);
    create_copy(membership_, *created, control, local_.length(), until);
    const std::lock_guard guard(membership_);
    if (copies_[copy])
        throw failure(RPMA_MIRROR_E_EXISTS, "copy " + std::to_string(copy) + " already exists");
    if (parts_.growing)
        throw failure(RPMA_MIRROR_E_BUSY, "the set is growing (try again later)");
    created->set_length(local_.length());
    flusher_.without_lanes([&] { copies_[copy] = std::move(created); });
    settings_.targets.push_back(new_settings.targets.back());
    const roles now = membership_.now();
    membership_.set_roles(now.awaited, now.syncing);
    events_.publish(RPMA_MIRROR_EVENT_ADDED, copy, membership_.record());
}

void resyncer::add_target(unsigned copy, const char *location, const char *set_name, const limits &within)
{
    create_target(copy, location, set_name);
    resync(copy, within);
}

void resyncer::remove_target(unsigned copy)
{
    std::unique_ptr<remote_copy> gone; // freed after the claim
    const exclusive_copy work(membership_, copies_, copy, nullptr);
    remote_copy &c = work.copy;
    const std::lock_guard guard(membership_);
    throw_if_failed(membership_.check_usable());
    replica::mirror_record next = membership_.record();
    next.in_sync = static_cast<std::uint16_t>(next.in_sync & ~c.bit());
    next.members = static_cast<std::uint16_t>(next.members & ~c.bit());
    const std::uint32_t rest = next.in_sync & ~membership_.local_bit();
    membership_.commit_record(next,
            static_cast<std::uint16_t>(rest == 0 ? 0 : membership_.record().in_sync & ~membership_.local_bit()), 0,
            c.bit());
    flusher_.without_lanes([&] {
        flusher_.drop_tickets(c);
        gone = std::move(copies_[copy]);
        const roles now = membership_.now();
        membership_.set_roles(now.awaited & ~gone->bit(), now.syncing & ~gone->bit());
    });
    std::erase_if(settings_.targets, [copy](const target_settings &t) { return t.copy == copy; });
    events_.publish(RPMA_MIRROR_EVENT_REMOVED, copy, membership_.record());
}
