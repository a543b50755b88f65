// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "lane_watch.hpp"
#include "parts.hpp"

namespace mirror
{

// Flush in flight: its ranges, and the tickets that the targets have not confirmed, 0 for none.
struct posted_flush {
    posted_ranges ranges;
    std::int64_t posted_ns = 0, posted_ms = 0; // time of the start
    std::array<std::uint64_t, replica::max_copies> tickets{};
    std::uint32_t late = 0; // copies that had not confirmed at the limit of late confirmations, as bits
};

// Lane of the program, which uses the same lane of each target.
struct lane_state {
    static constexpr std::uint64_t max_tickets = RPMA_MIRROR_MAX_TICKETS;

    // A flush holds the lock of its lane. Code that replaces connections holds those of all lanes.
    std::mutex lock;
    // Numbers of the last tickets: started, known to be complete, and reported to the program.
    std::uint64_t started = 0, completed = 0, taken = 0;
    std::array<posted_flush, max_tickets> in_flight{};
    // Time at which flush_take() last collected a completion of each target, in milliseconds.
    std::array<std::int64_t, replica::max_copies> progress_ms{};
    std::unique_ptr<lane_watch> watch; // NULL until the program requests the descriptor
};

// Completion of tickets without waiting, for programs with an event loop. The caller must hold the lock of the lane.
class completion
{
public:
    explicit completion(set_parts &of);

    // Collects completions of all connections of a lane, and checks for late targets.
    void collect(unsigned lane, lane_state &used) noexcept;
    // Counts the flushes that are complete.
    void update(unsigned lane, lane_state &used) const noexcept;
    // Makes the descriptor readable at the next completion, and when a target must be checked for a timeout.
    void watch(unsigned lane, lane_state &used) const noexcept;

private:
    void poll(unsigned lane, lane_state &used) noexcept;
    void confirm(unsigned lane, lane_state &used) noexcept;
    void find_unresponsive_targets(lane_state &used) noexcept;
    bool is_complete(unsigned lane, const posted_flush &posted) const noexcept;
    template<class F>
    void each_outstanding(lane_state &used, F &&f) const;

    const settings &settings_;
    const membership &membership_;
    remote_copies &copies_;
    counters &counted_;
    lost_targets &lost_;
};

} // namespace mirror
