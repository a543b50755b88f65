// SPDX-License-Identifier: BSD-3-Clause
#include "verify.hpp"

#include <cstring>
#include <span>
#include <sys/mman.h>

#include "base/range.hpp"
#include "failure.hpp"
#include "resync.hpp"

using namespace mirror;

namespace
{

constexpr std::uint64_t chunk_size = 64 * 1024;

// Calls f for the aligned chunks of a range until it returns false. Returns false in this case.
template<class F>
bool for_each_chunk(replica::range r, std::uint64_t size, F &&f)
{
    while (r.length > 0) {
        const replica::range chunk{r.offset, std::min(r.length, size - r.offset % size)};
        if (!f(chunk))
            return false;
        r.offset += chunk.length;
        r.length -= chunk.length;
    }
    return true;
}

// Stores by system calls, which fail where a store of the program would raise SIGBUS.
void store_by_kernel(std::byte *to, const std::vector<std::byte> &from)
{
    const replica::fd_owner passage(memfd_create("rpma_mirror_repair", MFD_CLOEXEC));
    if (!passage.valid())
        throw system_failure("cannot write the local copy");
    for_each_chunk({0, from.size()}, chunk_size, [&](replica::range chunk) {
        const auto length = static_cast<ssize_t>(chunk.length);
        if (pwrite(passage.get(), from.data() + chunk.offset, chunk.length, 0) != length ||
                pread(passage.get(), to + chunk.offset, chunk.length, 0) != length)
            throw failure(RPMA_MIRROR_E_MEDIA,
                    "cannot write the local copy (open the set again, which rebuilds it from a target)", errno);
        return true;
    });
}

} // namespace

verifier::verifier(set_parts &of, flusher &lanes, comparer &with)
    : parts_(of), settings_(of.configured), membership_(of.members), events_(of.published), local_(of.local),
      copies_(of.copies), counted_(of.counted), flusher_(lanes), comparer_(with)
{
}

rpma_mirror_verify_level verifier::flush_and_verify(
        unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags, rpma_mirror_error *first_bad)
{
    membership_.reject_reentry();
    throw_if_failed(flusher_.flush(lane, ranges, n, flags));
    std::vector<std::byte> back(chunk_size);
    auto level = RPMA_MIRROR_VERIFY_NONE;
    each_copy(membership_.now().awaited, [&](unsigned copy) {
        bool has_left = false;
        const auto same = [&](range chunk) {
            if (const int code = flusher_.read(lane, copy, back.data(), chunk); code != 0) {
                // The copy was evicted. The ranges are durable on the remaining copies.
                has_left = membership_.terminal_error() == 0 && (membership_.now().awaited >> copy & 1) == 0;
                if (!has_left)
                    throw failure(code, last_failure());
                return false;
            }
            const std::byte *const local_data = local_.address() + chunk.offset;
            if (std::memcmp(back.data(), local_data, chunk.length) == 0)
                return true;
            std::uint64_t begin = 0, end = chunk.length;
            while (back[begin] == local_data[begin])
                ++begin;
            while (back[end - 1] == local_data[end - 1])
                --end;
            rpma_mirror_error bad = make_error(copy, RPMA_MIRROR_E_VERIFY);
            bad.precise = 1;
            bad.offset = chunk.offset + begin;
            bad.length = end - begin;
            parts_.may_differ = true;
            if (first_bad != nullptr)
                *first_bad = bad;
            const std::lock_guard guard(membership_);
            events_.publish(RPMA_MIRROR_EVENT_MEDIA, copy, membership_.record(), bad);
            return false;
        };
        for (std::size_t i = 0; i < n && !has_left; ++i)
            if (!for_each_chunk({ranges[i].offset, ranges[i].length}, chunk_size, same) && !has_left)
                throw failure(RPMA_MIRROR_E_VERIFY, "copy " + std::to_string(copy) + ": data of range " +
                                                            std::to_string(i) + " differs from the flushed data");
        if (!has_left)
            level = RPMA_MIRROR_VERIFY_CACHE;
    });
    return level;
}

void verifier::check(unsigned copy, range r, rpma_mirror_error *errors, std::size_t *n)
{
    membership_.reject_reentry();
    const std::size_t max_errors = *n;
    std::size_t found = 0;
    const auto report = [&](range bad, int code, bool precise) {
        if (found == max_errors)
            return false;
        rpma_mirror_error &e = errors[found++];
        e = make_error(copy, code);
        e.precise = precise;
        e.offset = bad.offset;
        e.length = bad.length;
        return true;
    };
    if (copy == settings_.local_number) {
        // The kernel reads the memory and reports unreadable pages as errors; reads of the program would raise SIGBUS.
        const replica::fd_owner sink(memfd_create("rpma_mirror_check", MFD_CLOEXEC));
        if (!sink.valid())
            throw system_failure("cannot check the local copy");
        for_each_chunk(r, replica::page_size, [&](range chunk) {
            const ssize_t written = pwrite(sink.get(), local_.address() + chunk.offset, chunk.length, 0);
            return written == static_cast<ssize_t>(chunk.length) || report(chunk, RPMA_MIRROR_E_MEDIA, true);
        });
        const std::lock_guard guard(membership_);
        for (const rpma_mirror_error &e : std::span(errors, found))
            if (!events_.has_error(e))
                events_.publish(RPMA_MIRROR_EVENT_MEDIA, copy, membership_.record(), e);
    } else {
        std::vector<std::byte> back(chunk_size);
        {
            const std::lock_guard guard(membership_);
            target_of(copies_, copy);
        }
        for_each_chunk(r, chunk_size, [&](range chunk) {
            const int code = flusher_.read(0, copy, back.data(), chunk);
            if (code == RPMA_MIRROR_E_STALE)
                throw failure(code, last_failure());
            if (code != 0)
                report(r, code, false);
            return code == 0;
        });
    }
    *n = found;
}

// Overwrites pages of the local copy. It is not in sync until the end, so that an opening after a crash rebuilds it.
void verifier::overwrite_local_copy(range r, const std::vector<std::byte> &content)
{
    const replica::mirror_state whole = local_.state();
    replica::mirror_state torn = whole;
    torn.committed.in_sync = static_cast<std::uint16_t>(torn.committed.in_sync & ~membership_.local_bit());
    local_.store(torn);
    local_.punch(r);
    flusher_.reregister();
    store_by_kernel(local_.address() + r.offset, content);
    if (local_.flush(r) != 0)
        throw failure(RPMA_MIRROR_E_MEDIA, "cannot flush the local copy");
    local_.drain();
    local_.store(whole);
}

void verifier::repair_range(range r, unsigned source)
{
    membership_.reject_reentry();
    const std::uint64_t first_page = r.offset / replica::page_size;
    const std::uint64_t end_page = (r.offset + r.length + replica::page_size - 1) / replica::page_size;
    const range whole{first_page * replica::page_size, (end_page - first_page) * replica::page_size};
    std::vector<std::byte> content(whole.length);
    int code = RPMA_MIRROR_E_STALE;
    const std::uint32_t candidates = source == RPMA_MIRROR_ALL_COPIES ? membership_.now().awaited : 1U << source;
    for (std::uint32_t left = candidates; left != 0 && code != 0; left &= left - 1)
        code = flusher_.read(0, static_cast<unsigned>(std::countr_zero(left)), content.data(), whole);
    if (code != 0)
        throw failure(code, candidates == 0 ? "no other copy is in sync" : last_failure());
    const std::lock_guard guard(membership_);
    if (code = membership_.check_usable(); code != 0)
        throw failure(code, last_failure());
    try {
        overwrite_local_copy(whole, content);
    } catch (const failure &error) {
        membership_.end(RPMA_MIRROR_E_MEDIA, error.what(), RPMA_MIRROR_EVENT_MEDIA, settings_.local_number);
        throw;
    }
    counted_.repaired += whole.length;
    events_.forget_errors(settings_.local_number, whole);
    events_.publish(RPMA_MIRROR_EVENT_REPAIRED, settings_.local_number, membership_.record());
}

void verifier::verify(unsigned copy, const limits &within, rpma_mirror_verify_report &report)
{
    const exclusive_copy work(membership_, copies_, copy, nullptr);
    remote_copy &c = work.copy;
    const bool awaited = (membership_.now().awaited & c.bit()) != 0;
    if (!awaited)
        throw failure(RPMA_MIRROR_E_STALE, "copy " + std::to_string(copy) + " is not in sync");
    comparison job(c, direction::none, within);
    job.total = local_.length();
    comparer_.compare(job, 0, job.total);
    if (job.different != 0)
        parts_.may_differ = true;
    report = {};
    report.size = sizeof(report);
    report.differing_segments = static_cast<std::uint32_t>(job.different);
    report.compared_bytes = job.done;
    report.first_difference = job.first == UINT64_MAX ? 0 : job.first;
    report.level = RPMA_MIRROR_VERIFY_CACHE;
}
