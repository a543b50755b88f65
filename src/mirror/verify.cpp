// SPDX-License-Identifier: BSD-3-Clause
// Reading back, and repair from another copy.
#include "compare.hpp"

#include <cstring>
#include <span>
#include <sys/mman.h>

#include "failure.hpp"
#include "range.hpp"

using namespace mirror;

namespace
{

constexpr std::uint64_t piece_size = 64 * 1024;

// Calls f for pieces of a range until it returns false.
template<class F>
bool each_piece(replica::range r, std::uint64_t size, F &&f)
{
    while (r.length > 0) {
        const replica::range piece{r.offset, std::min(r.length, size - r.offset % size)};
        if (!f(piece))
            return false;
        r.offset += piece.length;
        r.length -= piece.length;
    }
    return true;
}

// Fails where a store of the program would raise SIGBUS.
void store_by_kernel(std::byte *to, const std::vector<std::byte> &from)
{
    const replica::fd_owner passage(memfd_create("rpma_mirror_repair", MFD_CLOEXEC));
    if (!passage.valid())
        throw system_failure("cannot write the home copy");
    each_piece({0, from.size()}, piece_size, [&](replica::range piece) {
        const auto length = static_cast<ssize_t>(piece.length);
        if (pwrite(passage.get(), from.data() + piece.offset, piece.length, 0) != length ||
                pread(passage.get(), to + piece.offset, piece.length, 0) != length)
            throw failure(RPMA_MIRROR_E_MEDIA,
                    "the home copy cannot be written: open the set again, which makes it from a target", errno);
        return true;
    });
}

} // namespace

rpma_mirror_verify_level rpma_mirror::flush_and_verify(
        unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags, rpma_mirror_error *first_bad)
{
    membership_.refuse_holder();
    if (const int code = flush(lane, ranges, n, flags); code != 0)
        throw failure(code, last_failure());
    std::vector<std::byte> back(piece_size);
    auto level = RPMA_MIRROR_VERIFY_NONE;
    each_copy(roles_.load().awaited, [&](unsigned copy) {
        bool has_left = false;
        const auto same = [&](range piece) {
            if (const int code = read(lane, copy, back.data(), piece); code != 0) {
                // The ranges are durable on the copies that stay.
                has_left = over_ == 0 && (roles_.load().awaited >> copy & 1) == 0;
                if (!has_left)
                    throw failure(code, last_failure());
                return false;
            }
            const std::byte *const ours = home_.address() + piece.offset;
            if (std::memcmp(back.data(), ours, piece.length) == 0)
                return true;
            std::uint64_t begin = 0, end = piece.length;
            while (back[begin] == ours[begin])
                ++begin;
            while (back[end - 1] == ours[end - 1])
                --end;
            rpma_mirror_error bad = make_error(copy, RPMA_MIRROR_E_VERIFY);
            bad.precise = 1;
            bad.offset = piece.offset + begin;
            bad.length = end - begin;
            if (first_bad != nullptr)
                *first_bad = bad;
            const std::lock_guard hold(membership_);
            events_.tell(RPMA_MIRROR_EVENT_MEDIA, copy, record_, bad);
            return false;
        };
        for (std::size_t i = 0; i < n && !has_left; ++i)
            if (!each_piece({ranges[i].offset, ranges[i].length}, piece_size, same) && !has_left)
                throw failure(RPMA_MIRROR_E_VERIFY, "copy " + std::to_string(copy) + " has something else in range " +
                                                            std::to_string(i) + " than was flushed");
        if (!has_left)
            level = RPMA_MIRROR_VERIFY_CACHE;
    });
    return level;
}

void rpma_mirror::check(unsigned copy, range r, rpma_mirror_error *errors, std::size_t *n)
{
    membership_.refuse_holder();
    const std::size_t most = *n;
    std::size_t found = 0;
    const auto report = [&](range bad, int code, bool precise) {
        if (found == most)
            return false;
        rpma_mirror_error &e = errors[found++];
        e = make_error(copy, code);
        e.precise = precise;
        e.offset = bad.offset;
        e.length = bad.length;
        return true;
    };
    if (copy == settings_.home_copy) {
        // The kernel reads it, and tells what it cannot read, where the program would get SIGBUS.
        const replica::fd_owner sink(memfd_create("rpma_mirror_check", MFD_CLOEXEC));
        if (!sink.valid())
            throw system_failure("cannot check the home copy");
        each_piece(r, replica::page_size, [&](range piece) {
            const ssize_t written = pwrite(sink.get(), home_.address() + piece.offset, piece.length, 0);
            return written == static_cast<ssize_t>(piece.length) || report(piece, RPMA_MIRROR_E_MEDIA, true);
        });
        const std::lock_guard hold(membership_);
        for (const rpma_mirror_error &e : std::span(errors, found))
            if (!events_.has_error(e))
                events_.tell(RPMA_MIRROR_EVENT_MEDIA, copy, record_, e);
    } else {
        std::vector<std::byte> back(piece_size);
        {
            const std::lock_guard hold(membership_);
            target(copy);
        }
        each_piece(r, piece_size, [&](range piece) {
            const int code = read(0, copy, back.data(), piece);
            if (code == RPMA_MIRROR_E_STALE)
                throw failure(code, last_failure());
            if (code != 0)
                report(r, code, false);
            return code == 0;
        });
    }
    *n = found;
}

// Whatever ends this in the middle: the home copy, which then lacks the range, is not in sync by its own state, so that
// the next opening makes it again from a target.
void rpma_mirror::rewrite_home(range r, const std::vector<std::byte> &good)
{
    const replica::mirror_state whole = home_.state();
    replica::mirror_state torn = whole;
    torn.committed.in_sync = static_cast<std::uint16_t>(torn.committed.in_sync & ~home_bit());
    home_.store(torn);
    home_.punch(r);
    register_again();
    store_by_kernel(home_.address() + r.offset, good);
    if (home_.flush(r) != 0)
        throw failure(RPMA_MIRROR_E_MEDIA, "the home copy cannot be written back");
    home_.drain();
    home_.store(whole);
}

void rpma_mirror::repair_range(range r, unsigned source)
{
    membership_.refuse_holder();
    const std::uint64_t first_page = r.offset / replica::page_size;
    const std::uint64_t end_page = (r.offset + r.length + replica::page_size - 1) / replica::page_size;
    const range whole{first_page * replica::page_size, (end_page - first_page) * replica::page_size};
    std::vector<std::byte> good(whole.length);
    int code = RPMA_MIRROR_E_STALE;
    const std::uint32_t candidates = source == RPMA_MIRROR_ALL_COPIES ? roles_.load().awaited : 1U << source;
    for (std::uint32_t left = candidates; left != 0 && code != 0; left &= left - 1)
        code = read(0, static_cast<unsigned>(std::countr_zero(left)), good.data(), whole);
    if (code != 0)
        throw failure(code, candidates == 0 ? "no other copy is in sync" : last_failure());
    const std::lock_guard hold(membership_);
    if (code = over(); code != 0)
        throw failure(code, last_failure());
    try {
        rewrite_home(whole, good);
    } catch (const failure &problem) {
        end(RPMA_MIRROR_E_MEDIA, problem.what(), RPMA_MIRROR_EVENT_MEDIA, settings_.home_copy);
        throw;
    }
    counted_.repaired += whole.length;
    events_.forget_errors(settings_.home_copy, whole);
    events_.tell(RPMA_MIRROR_EVENT_REPAIRED, settings_.home_copy, record_);
}

void rpma_mirror::verify(unsigned copy, const limits &within, rpma_mirror_verify_report &report)
{
    const work_on_copy work(*this, copy);
    remote_copy &c = work.copy;
    const bool awaited = (roles_.load().awaited & c.bit()) != 0;
    if (!awaited)
        throw failure(RPMA_MIRROR_E_STALE, "copy " + std::to_string(copy) + " is not in sync");
    comparison job(c, direction::none, within);
    job.total = home_.length();
    compare(job, 0, job.total);
    report = {};
    report.size = sizeof(report);
    report.differing_segments = static_cast<std::uint32_t>(job.different);
    report.compared_bytes = job.done;
    report.first_difference = job.first == UINT64_MAX ? 0 : job.first;
    report.level = RPMA_MIRROR_VERIFY_CACHE;
}
