// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "completion.hpp"

namespace mirror
{

// Data path: flushes on the lanes of the program. Functions that return int return 0 or an error code.
class flusher
{
public:
    using deadline = replica::deadline;

    explicit flusher(set_parts &of);

    int check_ranges(unsigned lane, const rpma_mirror_range *ranges, std::size_t n) const noexcept;
    int check_flushable() const noexcept;
    int flush(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags) noexcept;
    int flush_start(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags,
            std::uint64_t *ticket) noexcept;
    int flush_wait(unsigned lane, std::uint64_t ticket, int timeout_ms) noexcept;
    // Returns the descriptor that is readable when tickets are complete.
    int descriptor_of(unsigned lane);
    // Stores at most *n tickets that are complete and were not reported before. Does not wait.
    int flush_take(unsigned lane, std::uint64_t *tickets, std::size_t *n) noexcept;
    // Waits for the flushes that the program started, on all lanes.
    int wait_for_all() noexcept;
    int atomic_write(unsigned lane, std::uint64_t offset, std::uint64_t value) noexcept;
    int read(unsigned lane, unsigned copy, void *to, replica::range r) noexcept;

    template<class F>
    void without_lanes(F &&f)
    {
        std::vector<std::unique_lock<std::mutex>> guards;
        for (lane_state &lane : lanes_)
            guards.emplace_back(lane.lock);
        f();
    }
    // Calls f(failed) while no flush is in progress. `failed` are the copies, of those given as bits, that have not
    // confirmed all flushes. The caller must hold the membership lock.
    template<class F>
    void with_drained_lanes(std::uint32_t copies, F &&f)
    {
        without_lanes([&] {
            failed_copies failed;
            const deadline until(settings_.operation_ms);
            each_copy(copies, [&](unsigned copy) {
                if (const int error = copies_[copy]->region->wait_for_all(until); error != 0)
                    failed.add(copy, error);
            });
            f(failed);
            for (unsigned lane = 0; lane < lanes_.size(); ++lane)
                completion_.update(lane, lanes_[lane]);
        });
    }
    // Drops the tickets of a copy and marks unconfirmed ranges as dirty. The caller must hold the locks of all lanes.
    void drop_tickets(remote_copy &c);
    void reregister();

private:
    using range = replica::range;

    template<class Send>
    deadline post(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, const Send &send, posted_flush &flush,
            failed_copies &failed) noexcept;
    int on_local_copy_error(int error) noexcept;
    void await(unsigned lane, posted_flush &flush, const deadline &until, failed_copies &failed,
            bool progress_extends = true) noexcept;
    void record_confirmation(
            remote_copy &c, std::int64_t posted_ms, std::int64_t waited_ms, failed_copies &failed) noexcept;
    // Sets started_ns to the time of the start, unless it is set.
    int flush_once(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, bool deep,
            std::int64_t &started_ns) noexcept;
    int outcome(const failed_copies &failed, const posted_ranges &ranges) noexcept;
    int wait_for_ticket(unsigned lane, std::uint64_t ticket, int timeout_ms) noexcept;

    const settings &settings_;
    membership &membership_;
    events &events_;
    local_copy &local_;
    remote_copies &copies_;
    counters &counted_;
    std::atomic<bool> &may_differ_;
    const wakeup &changed_;
    completion completion_;

    std::vector<lane_state> lanes_;
    // Errno value if a device could not register the local copy again after a page was replaced, otherwise 0.
    std::atomic<int> reregister_error_ = 0;
};

} // namespace mirror
