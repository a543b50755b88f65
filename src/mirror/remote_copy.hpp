// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "channel.hpp"
#include "failure.hpp"
#include "region/region.hpp"
#include "region/segments.hpp"

namespace mirror
{

// Ranges of a flush that a target might not have. Does not allocate: ranges beyond the limit extend the last one.
class posted_ranges
{
public:
    void add(replica::range r) noexcept
    {
        if (r.length == 0)
            return;
        if (count_ < ranges_.size()) {
            ranges_[count_++] = r;
            return;
        }
        replica::range &last = ranges_.back();
        const std::uint64_t end = std::max(last.offset + last.length, r.offset + r.length);
        last.offset = std::min(last.offset, r.offset);
        last.length = end - last.offset;
    }
    std::span<const replica::range> get() const { return {ranges_.data(), count_}; }

private:
    std::array<replica::range, 8> ranges_{};
    std::size_t count_ = 0;
};

// Writer's view of the copy on a target.
class remote_copy
{
public:
    explicit remote_copy(const target_settings &where_) : where(where_) {}

    const target_settings where;
    std::unique_ptr<channel> control;
    std::unique_ptr<replica::region> region;
    rpma_mirror_level level = RPMA_MIRROR_LEVEL_VOLATILE;
    replica::mirror_state last_state; // last response of the target
    bool responded = false;           // responded to the current step of the opening
    std::optional<failure> error;     // reason if it did not respond
    std::atomic<int> last_error = 0;

    // Lock of the last lane. It carries resync data and control messages, and during a resync the program's flushes.
    std::mutex resync_lane_lock;
    // While true, flushes skip the lane if they would wait for it: the resync compares their marks again. A flush sets
    // `missed` before it reads `misses_flushes`, and the resync reads `missed` after it has reset `misses_flushes`.
    std::atomic<bool> misses_flushes = false;
    std::atomic<bool> missed = false;
    std::uint64_t cursor = 0;
    bool resumable = false;
    // The copy was in sync in this epoch: only dirty segments can differ.
    bool was_synced = false;
    std::atomic<bool> busy = false; // claimed by exclusive_copy
    // Cancels the claim if it is that of a background resync, otherwise NULL. Protected by the membership lock.
    replica::loss *preempt = nullptr;
    std::atomic<bool> canceled = false; // the program canceled the last resync

    std::atomic<std::uint32_t> late = 0; // consecutive flushes that the target confirmed late

    // Returns whether a flush may skip the copy. The flush must have marked its ranges.
    bool may_miss() noexcept
    {
        missed = true;
        return misses_flushes;
    }
    enum class lane_claim {
        locked,
        missed,
        timed_out, // a resync holds the lane beyond the deadline
    };
    lane_claim lock_resync_lane(const replica::deadline &until) noexcept
    {
        constexpr timespec pause{0, 50'000};
        while (!resync_lane_lock.try_lock()) {
            if (may_miss())
                return lane_claim::missed;
            if (until.passed())
                return lane_claim::timed_out;
            nanosleep(&pause, nullptr);
        }
        return lane_claim::locked;
    }

    std::uint32_t bit() const { return 1U << where.copy; }
    // Throws failure unless the target has this copy of the set. Requires the set only if it is not zero.
    void check_identity(const replica::mirror_state &found, const replica::set_uuid &set) const
    {
        if (set != replica::set_uuid{} && found.set != set)
            throw failure(RPMA_MIRROR_E_NOT_FOUND, "target " + where.name() + ": has a copy of another set as '" +
                                                           where.set_name + "' (correct the line of the target)");
        if (found.copy != where.copy)
            throw failure(RPMA_MIRROR_E_NOT_FOUND,
                    "target " + where.name() + ": has copy " + std::to_string(found.copy) + ", not copy " +
                            std::to_string(where.copy) + " (correct the line of the target)");
    }
    replica::region_lane &lane() { return region->lane(region->lanes() - 1); }
    replica::request make_request(const replica::set_uuid &set) const
    {
        replica::request r;
        r.set_set(replica::bytes_of(set));
        r.set_set_name(where.set_name);
        return r;
    }
    replica::request make_state_request(const replica::set_uuid &set) const
    {
        replica::request r = make_request(set);
        r.mutable_get_state();
        return r;
    }

    // Changes the length, and keeps the marks.
    void set_length(std::uint64_t length)
    {
        std::vector<std::atomic<std::uint64_t>> next(length / replica::segment_size / 64 + 1);
        for (std::size_t word = 0; word < std::min(next.size(), dirty_.size()); ++word)
            next[word] = dirty(word);
        dirty_ = std::move(next);
    }
    // Marks segments as dirty: a flush might not have reached the copy.
    void mark(replica::range r) noexcept
    {
        if (r.length == 0)
            return;
        for (std::uint64_t i = r.offset / replica::segment_size; i <= (r.offset + r.length - 1) / replica::segment_size;
                ++i)
            dirty_[i / 64].fetch_or(std::uint64_t{1} << i % 64);
    }
    void mark(const posted_ranges &ranges) noexcept
    {
        for (const replica::range r : ranges.get())
            mark(r);
    }
    std::size_t dirty_words() const { return dirty_.size(); }
    std::uint64_t dirty(std::size_t word) const { return dirty_[word]; }
    std::uint64_t take_dirty(std::size_t word) { return dirty_[word].exchange(0); }
    void put_dirty(std::size_t word, std::uint64_t bits) { dirty_[word].fetch_or(bits); }
    void clear_dirty()
    {
        for (auto &word : dirty_)
            word = 0;
    }

private:
    std::vector<std::atomic<std::uint64_t>> dirty_;
};

// Targets of a set, by copy number. Changed with the membership lock and the locks of all lanes held.
using remote_copies = std::array<std::unique_ptr<remote_copy>, replica::max_copies>;

} // namespace mirror
