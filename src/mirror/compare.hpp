// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include <optional>

#include "parts.hpp"

namespace mirror
{

// Batch of consecutive segments of a comparison, aligned to a segment.
struct batch {
    replica::range extent{};
    // Pending hash request. Without one, the batch is sent without comparing.
    channel::pending_call pending_hashes;
    // Ticket of the lane that makes the sent data of the batch durable.
    std::uint64_t ticket = 0;
    std::uint64_t sent = 0;
};

enum class direction {
    to_target,
    from_target,
    none
};

// Comparison of a target's copy with the local copy, in batches. The target hashes a batch while the writer processes
// the previous one. Data sent for a batch becomes durable while the next one is sent.
struct comparison {
    comparison(remote_copy &with, direction dir_, const limits &within_) : copy(with), dir(dir_), within(within_) {}

    remote_copy &copy;
    const direction dir;
    const limits within;
    std::uint64_t total = 0;
    std::uint64_t done = 0;
    std::uint64_t sent = 0;
    std::uint64_t different = 0; // segments
    std::uint64_t first = UINT64_MAX;
    // Consecutive batches that differed completely, and following batches that are sent without comparing.
    std::uint32_t all_different = 0;
    std::uint32_t unchecked = 0;
    std::uint64_t started_ms = static_cast<std::uint64_t>(replica::now_ms());
    // Called with the offset up to which both copies are equal and durable.
    std::function<void(std::uint64_t end)> on_durable_up_to;

    bool is_canceled() const { return within.cancel != nullptr && within.cancel->error() != 0; }
    // Calls the progress function, and waits to keep the rate limit. Throws E_CANCELED.
    void step(rpma_mirror_phase phase);
};

class comparer
{
public:
    explicit comparer(set_parts &of);

    void compare(comparison &c, std::uint64_t begin, std::uint64_t end);

private:
    using range = replica::range;
    using deadline = replica::deadline;

    batch begin_batch(comparison &c, std::uint64_t at, std::uint64_t end);
    channel::pending_call request_hashes(comparison &c, range r);
    void compare_hashes(comparison &c, batch &b);
    void send_unchecked(comparison &c, batch &b);
    void post_batch(comparison &c, batch &b, int error);
    void wait_durable(remote_copy &c, std::uint64_t ticket) const;
    void end_batch(comparison &c, const batch &b);
    std::uint64_t diff_batch(comparison &c, batch &b);
    int copy_chunk(comparison &c, batch &b, range chunk);

    const settings &settings_;
    const membership &membership_;
    const local_copy &local_;
    counters &counted_;
};

} // namespace mirror
