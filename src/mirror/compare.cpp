// SPDX-License-Identifier: BSD-3-Clause
#include "compare.hpp"

#include <ctime>

#include "failure.hpp"
#include "group/batch.hpp"

using namespace mirror;

namespace
{

// Maximum number of comparisons of a batch by a verification: the program may change a segment between the two hashes.
constexpr int max_compare_attempts = 4;
constexpr std::uint32_t max_unchecked = 32; // maximum number of consecutive batches that are sent without comparing
constexpr std::uint64_t max_sleep_ms = 20;  // time after which a sleeping comparison checks whether it was canceled
// Maximum time without progress for which a waiting thread holds the lane, and the pause in which a flush can take it.
constexpr int max_lane_hold_ms = 2;
constexpr timespec lane_pause{0, 200'000};

void sleep_ms(std::uint64_t ms)
{
    timespec left{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
    while (nanosleep(&left, &left) != 0) {
    }
}

} // namespace

comparer::comparer(set_parts &of)
    : settings_(of.configured), membership_(of.members), local_(of.local), counted_(of.counted)
{
}

void comparison::step(rpma_mirror_phase phase)
{
    const std::uint64_t passed = static_cast<std::uint64_t>(replica::now_ms()) - started_ms;
    const std::uint64_t due = within.bytes_per_second == 0 ? 0 : done * 1000 / within.bytes_per_second;
    if (within.progress != nullptr) {
        rpma_mirror_progress p{};
        p.size = sizeof(p);
        p.copy = copy.where.copy;
        p.phase = phase;
        p.compared_bytes = done;
        p.total_bytes = total;
        p.sent_bytes = sent;
        p.bytes_per_second = done * 1000 / (passed == 0 ? 1 : passed);
        p.seconds_left = p.bytes_per_second == 0
                                 ? UINT32_MAX
                                 : static_cast<std::uint32_t>((total - std::min(done, total)) / p.bytes_per_second);
        if (within.progress(within.context, &p) != 0)
            throw failure(RPMA_MIRROR_E_CANCELED, "canceled by the progress function");
    }
    for (std::uint64_t left = due > passed ? due - passed : 0; left > 0 && !is_canceled();) {
        const std::uint64_t part = std::min(left, max_sleep_ms);
        sleep_ms(part);
        left -= part;
    }
    if (is_canceled())
        throw failure(RPMA_MIRROR_E_CANCELED, "canceled");
}

void comparer::compare(comparison &c, std::uint64_t begin, std::uint64_t end)
{
    std::optional<batch> next_batch, previous_batch;
    for (std::uint64_t at = begin; at < end;) {
        batch now = next_batch ? std::move(*next_batch) : begin_batch(c, at, end);
        next_batch.reset();
        at += now.extent.length;
        // Requests the next hashes early, unless all segments differed: the next batch may then be sent unchecked.
        if (at < end && c.all_different == 0)
            next_batch = begin_batch(c, at, end);
        if (now.pending_hashes)
            compare_hashes(c, now);
        else
            send_unchecked(c, now);
        if (previous_batch)
            end_batch(c, *previous_batch);
        previous_batch = std::move(now);
    }
    if (previous_batch)
        end_batch(c, *previous_batch);
}

// Starts a batch. After n consecutive batches that differed completely, the next n are sent without comparing (see
// max_unchecked). At most as much data is sent unnecessarily as differed before.
batch comparer::begin_batch(comparison &c, std::uint64_t at, std::uint64_t end)
{
    throw_if_failed(local_.check_file());
    batch created;
    created.extent = {at, std::min(group::max_batch_size, end - at)};
    if (c.unchecked > 0)
        --c.unchecked;
    else
        created.pending_hashes = request_hashes(c, created.extent);
    return created;
}

channel::pending_call comparer::request_hashes(comparison &c, range r)
{
    replica::request request = membership_.writer.make_promise_request(c.copy);
    replica::wire::hash_request &hash = *request.mutable_hash();
    hash.set_offset(r.offset);
    hash.set_length(r.length);
    return c.copy.control->start_call(request, deadline(settings_.operation_ms));
}

// Releases the lane between two parts of the wait, so that a silent target does not delay flushes.
void comparer::wait_durable(remote_copy &c, std::uint64_t ticket) const
{
    const deadline until(settings_.operation_ms);
    for (;;) {
        int error = 0;
        {
            const std::lock_guard guard(c.resync_lane_lock);
            error = c.lane().wait(ticket, deadline(max_lane_hold_ms));
        }
        if (error == 0)
            return;
        if (error == ETIMEDOUT && !until.passed()) {
            nanosleep(&lane_pause, nullptr);
            continue;
        }
        if (error == ETIMEDOUT)
            c.region->lost().declare(error);
        lost(c, error);
    }
}

void comparer::end_batch(comparison &c, const batch &of)
{
    if (c.dir != direction::none)
        wait_durable(c.copy, of.ticket);
    c.done += of.extent.length;
    c.sent += of.sent;
    counted_.compared += of.extent.length;
    counted_.sent += of.sent;
    if (c.on_durable_up_to)
        c.on_durable_up_to(of.extent.offset + of.extent.length);
    c.step(RPMA_MIRROR_PHASE_COMPARE);
}

// Copies a range that differs. Returns 0, or an errno value with which the target is lost.
int comparer::copy_chunk(comparison &c, batch &b, range chunk)
{
    b.sent += chunk.length;
    if (c.dir == direction::to_target)
        return c.copy.lane().flush(chunk);
    if (const int error = c.copy.lane().fetch(chunk); error != 0)
        return error;
    if (local_.flush(chunk) != 0)
        throw failure(RPMA_MIRROR_E_MEDIA, "cannot flush the local copy");
    return 0;
}

void comparer::send_unchecked(comparison &c, batch &b)
{
    const std::lock_guard guard(c.copy.resync_lane_lock);
    post_batch(c, b, copy_chunk(c, b, b.extent));
}

void comparer::post_batch(comparison &c, batch &b, int error)
{
    local_.drain();
    if (error == 0)
        error = c.copy.lane().begin_drain(replica::lane_request_kind::flush);
    if (error != 0)
        lost(c.copy, error);
    b.ticket = c.copy.lane().ticket();
}

// Returns a bit mask of the segments that differ.
std::uint64_t comparer::diff_batch(comparison &c, batch &b)
{
    const std::string local = replica::hash_segments({local_.address() + b.extent.offset, b.extent.length});
    const std::string remote = c.copy.control->finish_call(b.pending_hashes, deadline(settings_.operation_ms)).hashes();
    const std::optional<std::uint64_t> bits = group::different_segments(local, remote);
    if (!bits)
        throw failure(RPMA_MIRROR_E_REJECTED, "target " + c.copy.where.name() + ": wrong number of segment hashes");
    return *bits;
}

void comparer::compare_hashes(comparison &c, batch &b)
{
    std::uint64_t bits = diff_batch(c, b);
    for (int more = 1; c.dir == direction::none && bits != 0 && more < max_compare_attempts; ++more) {
        sleep_ms(5);
        b.pending_hashes = request_hashes(c, b.extent);
        bits = diff_batch(c, b);
    }
    const auto different = static_cast<std::uint64_t>(std::popcount(bits));
    c.different += different;
    if (bits != 0)
        c.first = std::min(
                c.first, b.extent.offset + static_cast<std::uint64_t>(std::countr_zero(bits)) * replica::segment_size);
    if (c.dir == direction::none)
        return;
    c.all_different = different * replica::segment_size >= b.extent.length ? c.all_different + 1 : 0;
    c.unchecked = std::min(c.all_different, max_unchecked);
    const std::lock_guard guard(c.copy.resync_lane_lock);
    int error = group::each_run(bits, b.extent, [&](range run) { return copy_chunk(c, b, run); });
    // Flushes equal segments, too: they might not be durable after a lost flush.
    if (error == 0)
        error = c.copy.lane().include(b.extent);
    post_batch(c, b, error);
}
