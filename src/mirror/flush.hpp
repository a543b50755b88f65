// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "parts.hpp"

namespace mirror
{

// Flush in flight: its ranges, and the tickets that the targets have not confirmed, 0 for none.
struct posted_flush {
    posted_ranges ranges;
    std::int64_t posted_ms = 0; // time of the start, if late confirmations are counted
    std::array<std::uint64_t, replica::max_copies> tickets{};
};

// Lane of the program: uses the same lane of each target.
struct program_lane {
    static constexpr std::uint64_t max_tickets = 64;

    // Held by a flush. Code that replaces connections takes the locks of all lanes. Uncontended otherwise, because one
    // thread at a time uses a lane.
    std::mutex lock;
    std::uint64_t started = 0;
    std::array<posted_flush, max_tickets> in_flight{};
};

// Data path: lanes of the program. The functions that return int return 0 or an error code.
class flusher
{
public:
    explicit flusher(set_parts &of);

    int check_ranges(unsigned lane, const rpma_mirror_range *ranges, std::size_t n) const noexcept;
    // Returns 0 if a flush may start.
    int check_flushable() const noexcept;
    int flush(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags) noexcept;
    int flush_start(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags,
            std::uint64_t *ticket) noexcept;
    int flush_wait(unsigned lane, std::uint64_t ticket, int timeout_ms) noexcept;
    // Waits for the flushes that the program started, on all lanes.
    int wait_for_all() noexcept;
    int atomic_write(unsigned lane, std::uint64_t offset, std::uint64_t value) noexcept;
    int read(unsigned lane, unsigned copy, void *to, replica::range r) noexcept;

    // Calls f with the locks of all lanes held.
    template<class F>
    void without_lanes(F &&f)
    {
        std::vector<std::unique_lock<std::mutex>> holds;
        for (program_lane &lane : lanes_)
            holds.emplace_back(lane.lock);
        f();
    }
    // Drops the tickets of a copy whose connection ends, and marks the ranges as dirty that it has not confirmed. The
    // caller must hold the locks of all lanes.
    void drop_tickets(remote_copy &c);
    void register_again();

private:
    using range = replica::range;
    using deadline = replica::deadline;

    template<class Send>
    void post(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, const Send &send, const deadline &until,
            posted_flush &flush, failed_copies &failed) noexcept;
    // Returns 0 or an errno value.
    int flush_local_copy(const rpma_mirror_range *ranges, std::size_t n, bool deep) noexcept;
    int on_local_copy_error(int error) noexcept;
    void await(unsigned lane, posted_flush &flush, const deadline &until, failed_copies &failed) noexcept;
    void note_confirmation(
            remote_copy &c, std::int64_t posted_ms, std::int64_t waited_ms, failed_copies &failed) noexcept;
    int flush_once(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, bool deep) noexcept;
    int outcome(const failed_copies &failed, const posted_ranges &ranges) noexcept;

    const settings &settings_;
    membership &membership_;
    events &events_;
    local_copy &local_;
    remote_copies &copies_;
    counters &counted_;
    std::atomic<bool> &may_differ_;

    std::vector<program_lane> lanes_;
    // Errno value if a device could not register the local copy again after a page was replaced, otherwise 0.
    std::atomic<int> reregister_error_ = 0;
};

} // namespace mirror
