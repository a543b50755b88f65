// SPDX-License-Identifier: BSD-3-Clause
// Bringing copies level: segments are compared by hash, and those that differ are copied.
#include "compare.hpp"

#include <ctime>

#include "failure.hpp"

using namespace mirror;

namespace
{

constexpr std::uint64_t batch_size = replica::most_hashes * replica::segment_size;
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
        p.done = done;
        p.total = total;
        p.sent = sent;
        p.bytes_per_second = done * 1000 / (passed == 0 ? 1 : passed);
        p.seconds_left = p.bytes_per_second == 0
                                 ? UINT32_MAX
                                 : static_cast<std::uint32_t>((total - std::min(done, total)) / p.bytes_per_second);
        if (within.progress(within.context, &p) != 0)
            throw failure(RPMA_MIRROR_E_PAUSED, "paused by the program");
    }
    if (due > passed)
        sleep_ms(due - passed);
}

void rpma_mirror::compare(comparison &c, std::uint64_t begin, std::uint64_t end)
{
    while (begin < end) {
        const range r{begin, std::min(batch_size, end - begin)};
        compare_batch(c, r);
        begin += r.length;
        c.step(RPMA_MIRROR_PHASE_COMPARE);
    }
}

// What differs is copied. 0 or an errno, with which the target is lost.
int rpma_mirror::copy_piece(comparison &c, range piece)
{
    c.sent += piece.length;
    if (c.way == direction::to_target)
        return c.copy.lane().flush(piece);
    if (const int error = c.copy.lane().fetch(piece); error != 0)
        return error;
    if (home_.flush(piece) != 0)
        throw failure(RPMA_MIRROR_E_MEDIA, "the home copy cannot be written back");
    return 0;
}

// A target that has nothing yet differs everywhere: as many batches as differed are sent without a look, so that at
// most as much is sent in vain, and hashes cost no time.
bool rpma_mirror::send_unseen(comparison &c, range r)
{
    if (c.unseen == 0)
        return false;
    --c.unseen;
    const std::lock_guard hold(c.copy.own_lane);
    int error = copy_piece(c, r);
    if (error == 0)
        error = c.copy.lane().drain();
    home_.drain();
    if (error != 0)
        lost(c.copy, error);
    return true;
}

// At most batch_size from a whole number of segments on.
void rpma_mirror::compare_batch(comparison &c, range r)
{
    const std::uint64_t sent_before = c.sent;
    if (!send_unseen(c, r))
        compare_hashes(c, r);
    c.done += r.length;
    counted_.compared += r.length;
    counted_.sent += c.sent - sent_before;
}

void rpma_mirror::compare_hashes(comparison &c, range r)
{
    int error = 0;
    for (int look = 0;; ++look) {
        replica::request asked = about_promise(c.copy, replica::request_type::mirror_hash);
        asked.mirror.offset = r.offset;
        asked.mirror.length = r.length;
        const deadline until(settings_.open_ms);
        c.copy.control->begin(asked, until);
        replica::segment_hashes ours;
        replica::hash_segments({home_.address() + r.offset, r.length}, ours);
        const replica::segment_hashes theirs = c.copy.control->finish(until).hashes;
        if (theirs.count != ours.count)
            throw failure(RPMA_MIRROR_E_TARGET, "target " + c.copy.where.name() + " compared something else");
        std::uint64_t different = 0, first = UINT64_MAX;
        const std::lock_guard hold(c.copy.own_lane);
        for (std::uint32_t i = 0; i < ours.count && error == 0; ++i) {
            if (ours.hashes[i] == theirs.hashes[i])
                continue;
            const std::uint64_t at = i * replica::segment_size;
            const range piece{r.offset + at, std::min(replica::segment_size, r.length - at)};
            ++different;
            first = std::min(first, piece.offset);
            if (c.way != direction::none)
                error = copy_piece(c, piece);
        }
        if (c.way == direction::none && different != 0 && look < looks) {
            sleep_ms(5);
            continue;
        }
        // What is equal may not be durable: it was written, and what would have made it durable was lost.
        if (error == 0 && c.way != direction::none)
            error = c.copy.lane().include(r);
        if (error == 0)
            error = c.copy.lane().drain();
        home_.drain();
        if (error != 0)
            lost(c.copy, error);
        c.different += different;
        c.first = std::min(c.first, first);
        c.all_different = different == ours.count ? c.all_different + 1 : 0;
        if (c.way != direction::none)
            c.unseen = std::min(c.all_different, most_unseen);
        break;
    }
}
