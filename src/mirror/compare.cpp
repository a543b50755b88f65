// SPDX-License-Identifier: BSD-3-Clause
// Bringing copies level: segments are compared by hash, and those that differ are copied.
#include "compare.hpp"

#include <ctime>

#include "failure.hpp"

using namespace mirror;

namespace
{

// A program that changes a segment between the two looks at it is given so many more looks.
constexpr int looks = 4;
// So many batches at most are sent in a row without a look.
constexpr std::uint32_t most_unseen = 32;

void sleep_ms(std::uint64_t ms)
{
    timespec left{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
    while (nanosleep(&left, &left) != 0) {
    }
}

// Some of the segments of a place in a row.
replica::range segments_of(replica::range place, int first, int count)
{
    const std::uint64_t begin = static_cast<std::uint64_t>(first) * replica::segment_size;
    const std::uint64_t length = static_cast<std::uint64_t>(count) * replica::segment_size;
    return {place.offset + begin, std::min(length, place.length - begin)};
}

[[noreturn]] void lost(const remote_copy &c, int error)
{
    throw failure(code_of_link(error), "target " + c.where.name() + " is lost: " + std::strerror(error), error);
}

} // namespace

void rpma_mirror::comparison::step(rpma_mirror_phase phase)
{
    const std::uint64_t passed = static_cast<std::uint64_t>(replica::now_ms()) - begun_ms;
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
            throw failure(RPMA_MIRROR_E_CANCELED, "paused by the program");
    }
    if (due > passed)
        sleep_ms(due - passed);
}

void rpma_mirror::compare(comparison &c, std::uint64_t begin, std::uint64_t end)
{
    std::optional<batch> ahead, behind;
    for (std::uint64_t at = begin; at < end;) {
        batch now = ahead ? std::move(*ahead) : begin_batch(c, at, end);
        ahead.reset();
        at += now.place.length;
        // Where everything differs, what comes next may be sent without a look.
        if (at < end && c.all_different == 0)
            ahead = begin_batch(c, at, end);
        if (now.asked)
            compare_hashes(c, now);
        else
            send_unseen(c, now);
        if (behind)
            end_batch(c, *behind);
        behind = std::move(now);
    }
    if (behind)
        end_batch(c, *behind);
}

// A target that has nothing yet differs everywhere: as many batches as differed are sent without a look, so that at
// most as much is sent in vain, and hashes cost no time.
rpma_mirror::batch rpma_mirror::begin_batch(comparison &c, std::uint64_t at, std::uint64_t end)
{
    batch made;
    made.place = {at, std::min(batch::most, end - at)};
    if (c.unseen > 0)
        --c.unseen;
    else
        made.asked = ask_hashes(c, made.place);
    return made;
}

channel::question rpma_mirror::ask_hashes(comparison &c, range r)
{
    replica::request asked = about_promise(c.copy, replica::request_type::mirror_hash);
    asked.mirror.offset = r.offset;
    asked.mirror.length = r.length;
    return c.copy.control->begin(asked, deadline(settings_.operation_ms));
}

void rpma_mirror::end_batch(comparison &c, const batch &of)
{
    if (c.way != direction::none) {
        const std::lock_guard hold(c.copy.own_lane);
        int error = c.copy.lane().wait(of.ticket, deadline(settings_.operation_ms));
        if (error == ETIMEDOUT)
            c.copy.region->lost().declare(error);
        if (error != 0)
            lost(c.copy, error);
    }
    c.done += of.place.length;
    c.sent += of.sent;
    counted_.compared += of.place.length;
    counted_.sent += of.sent;
    if (c.level_up_to)
        c.level_up_to(of.place.offset + of.place.length);
    c.step(RPMA_MIRROR_PHASE_COMPARE);
}

// What differs is copied. 0 or an errno, with which the target is lost.
int rpma_mirror::copy_piece(comparison &c, batch &b, range piece)
{
    b.sent += piece.length;
    if (c.way == direction::to_target)
        return c.copy.lane().flush(piece);
    if (const int error = c.copy.lane().fetch(piece); error != 0)
        return error;
    if (home_.flush(piece) != 0)
        throw failure(RPMA_MIRROR_E_MEDIA, "the home copy cannot be written back");
    return 0;
}

void rpma_mirror::send_unseen(comparison &c, batch &b)
{
    const std::lock_guard hold(c.copy.own_lane);
    post_batch(c, b, copy_piece(c, b, b.place));
}

// What was sent becomes durable after its ticket; the error is that of sending.
void rpma_mirror::post_batch(comparison &c, batch &b, int error)
{
    home_.drain();
    if (error == 0)
        error = c.copy.lane().begin_drain(replica::lane_request_kind::flush);
    if (error != 0)
        lost(c.copy, error);
    b.ticket = c.copy.lane().ticket();
}

// The segments that differ, as bits.
std::uint64_t rpma_mirror::look(comparison &c, batch &b)
{
    static_assert(replica::max_hashes <= 64);
    replica::segment_hashes ours;
    replica::hash_segments({home_.address() + b.place.offset, b.place.length}, ours);
    const replica::segment_hashes theirs =
            c.copy.control->finish(std::move(*b.asked), deadline(settings_.operation_ms)).hashes;
    if (theirs.count != ours.count)
        throw failure(RPMA_MIRROR_E_REJECTED, "target " + c.copy.where.name() + " compared something else");
    std::uint64_t bits = 0;
    for (std::uint32_t i = 0; i < ours.count; ++i)
        if (ours.hashes[i] != theirs.hashes[i])
            bits |= std::uint64_t{1} << i;
    return bits;
}

void rpma_mirror::compare_hashes(comparison &c, batch &b)
{
    std::uint64_t bits = look(c, b);
    for (int more = 1; c.way == direction::none && bits != 0 && more < looks; ++more) {
        sleep_ms(5);
        b.asked = ask_hashes(c, b.place);
        bits = look(c, b);
    }
    const auto different = static_cast<std::uint64_t>(std::popcount(bits));
    c.different += different;
    if (bits != 0)
        c.first = std::min(c.first, segments_of(b.place, std::countr_zero(bits), 1).offset);
    if (c.way == direction::none)
        return;
    c.all_different = different * replica::segment_size >= b.place.length ? c.all_different + 1 : 0;
    c.unseen = std::min(c.all_different, most_unseen);
    const std::lock_guard hold(c.copy.own_lane);
    int error = 0;
    while (bits != 0 && error == 0) {
        const int at = std::countr_zero(bits), count = std::countr_one(bits >> at);
        error = copy_piece(c, b, segments_of(b.place, at, count));
        bits &= bits + (std::uint64_t{1} << at); // without the lowest ones in a row
    }
    // What is equal may not be durable: it was written, and what would have made it durable was lost.
    if (error == 0)
        error = c.copy.lane().include(b.place);
    post_batch(c, b, error);
}
