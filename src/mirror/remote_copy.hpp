// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "channel.hpp"
#include "failure.hpp"
#include "region.hpp"
#include "segments.hpp"

namespace mirror
{

// A copy on a target, as the writer sees it.
class remote_copy
{
public:
    explicit remote_copy(const target_settings &where_) : where(where_) {}

    const target_settings where;
    std::unique_ptr<channel> control;
    std::unique_ptr<replica::region> region;
    rpma_mirror_level level = RPMA_MIRROR_LEVEL_VOLATILE;
    replica::mirror_state known;    // what it answered last
    bool answered = false;          // to the opening
    std::optional<failure> problem; // why it did not
    std::atomic<int> last_error = 0;

    // The last lane, for all but the flushes of the program; also for these while the copy is brought level.
    std::mutex own_lane;
    std::uint64_t cursor = 0;
    bool resumable = false;
    std::atomic<bool> busy = false; // rpma_mirror::work_on_copy

    // False: whoever brings the copy level keeps its lane beyond the deadline.
    bool take_own_lane(const replica::deadline &until) noexcept
    {
        constexpr timespec pause{0, 50'000};
        while (!own_lane.try_lock()) {
            if (until.passed())
                return false;
            nanosleep(&pause, nullptr);
        }
        return true;
    }

    std::uint32_t bit() const { return 1U << where.copy; }
    replica::region_lane &lane() { return region->lane(region->lanes() - 1); }
    replica::request about(replica::request_type type, const replica::set_uuid &set) const
    {
        replica::request r;
        r.type = type;
        r.mirror.set = set;
        r.mirror.copy = where.copy;
        r.mirror.set_name.assign(where.set_name);
        return r;
    }

    void set_length(std::uint64_t length)
    {
        dirty_ = std::vector<std::atomic<std::uint64_t>>(length / replica::segment_size / 64 + 1);
    }
    // Segments that were flushed while the copy did not get them for certain.
    void mark(replica::range r) noexcept
    {
        if (r.length == 0)
            return;
        for (std::uint64_t i = r.offset / replica::segment_size; i <= (r.offset + r.length - 1) / replica::segment_size;
                ++i)
            dirty_[i / 64].fetch_or(std::uint64_t{1} << i % 64);
    }
    std::size_t dirty_words() const { return dirty_.size(); }
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

} // namespace mirror
