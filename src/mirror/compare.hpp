// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include "set.hpp"

// A target's copy that a thread works on for long: one does at a time, and meanwhile the copy stays in the set. Throws
// E_NOT_FOUND and E_BUSY.
class rpma_mirror::work_on_copy
{
public:
    work_on_copy(rpma_mirror &of, unsigned number);
    ~work_on_copy();
    work_on_copy(const work_on_copy &) = delete;
    work_on_copy &operator=(const work_on_copy &) = delete;

    mirror::remote_copy &copy;

private:
    static mirror::remote_copy &take(rpma_mirror &of, unsigned number);
};

// A part of a walk, from a whole number of segments on.
struct rpma_mirror::batch {
    static constexpr std::uint64_t most = replica::max_hashes * replica::segment_size;

    range place{};
    // For its hashes; without it, it is sent without a look.
    std::optional<mirror::channel::question> asked;
    // After the wait for this ticket of the lane, what was sent of it is durable.
    std::uint64_t ticket = 0;
    std::uint64_t sent = 0;
};

// A walk through the segments of a target's copy, which are compared with those at home. The target hashes a batch
// while this side works on the one before, and what was sent of a batch becomes durable while the next one is sent.
struct rpma_mirror::comparison {
    comparison(mirror::remote_copy &with, direction way_, const mirror::limits &within_)
        : copy(with), way(way_), within(within_)
    {
    }

    mirror::remote_copy &copy;
    const direction way;
    const mirror::limits within;
    std::uint64_t total = 0;
    std::uint64_t done = 0;
    std::uint64_t sent = 0;
    std::uint64_t different = 0; // segments
    std::uint64_t first = UINT64_MAX;
    // Batches in a row of which all differed, and how many of those that follow are therefore sent without a look.
    std::uint32_t all_different = 0;
    std::uint32_t unseen = 0;
    std::uint64_t begun_ms = static_cast<std::uint64_t>(replica::now_ms());
    // Is told up to where the copies are level, durably.
    std::function<void(std::uint64_t end)> level_up_to;

    // Tells the program, and waits where the rate asks for it. Throws E_CANCELED.
    void step(rpma_mirror_phase phase);
};
