// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include "set.hpp"

// Exclusive claim of one thread on a target's copy for a long operation, such as a resync. remove_target() rejects a
// claimed copy. Throws E_NOT_FOUND and E_BUSY.
class rpma_mirror::exclusive_copy
{
public:
    exclusive_copy(rpma_mirror &of, unsigned number);
    ~exclusive_copy();
    exclusive_copy(const exclusive_copy &) = delete;
    exclusive_copy &operator=(const exclusive_copy &) = delete;

    mirror::remote_copy &copy;

private:
    static mirror::remote_copy &take(rpma_mirror &of, unsigned number);
};

// Batch of consecutive segments of a comparison, aligned to a segment.
struct rpma_mirror::batch {
    static constexpr std::uint64_t max_size = replica::max_hashes * replica::segment_size;

    range place{};
    // Pending hash request. Without one, the batch is sent without comparing.
    std::optional<mirror::channel::question> asked;
    // Ticket of the lane that makes the sent data of the batch durable.
    std::uint64_t ticket = 0;
    std::uint64_t sent = 0;
};

// Comparison of a target's copy with the local copy, in batches. The target hashes a batch while the writer processes
// the previous one. Data sent for a batch becomes durable while the next one is sent.
struct rpma_mirror::comparison {
    comparison(mirror::remote_copy &with, direction dir_, const mirror::limits &within_)
        : copy(with), dir(dir_), within(within_)
    {
    }

    mirror::remote_copy &copy;
    const direction dir;
    const mirror::limits within;
    std::uint64_t total = 0;
    std::uint64_t done = 0;
    std::uint64_t sent = 0;
    std::uint64_t different = 0; // segments
    std::uint64_t first = UINT64_MAX;
    // Number of consecutive batches that differed completely, and number of following batches that are sent without
    // comparing.
    std::uint32_t all_different = 0;
    std::uint32_t unchecked = 0;
    std::uint64_t started_ms = static_cast<std::uint64_t>(replica::now_ms());
    // Called with the offset up to which both copies are equal and durable.
    std::function<void(std::uint64_t end)> on_durable_up_to;

    // Calls the progress function and waits as the rate limit requires. Throws E_CANCELED.
    void step(rpma_mirror_phase phase);
};
