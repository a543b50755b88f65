// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shared_layout.hpp"

#include <atomic>
#include <cstdint>
#include <infiniband/verbs.h>
#include <vector>

namespace softrdma
{

// Messages that a peer on this host has delivered without help of this process. An interface, although only
// receive_queue implements it: its header needs that of the completion queue, whose polls call the sources inline.
class inbound_source
{
public:
    virtual ~inbound_source() = default;
    virtual int drain(ibv_wc *wc, int entries) = 0; // requires the lock of the completion queue
    // Number of messages that drain() has not completed yet; an estimate without the lock of the completion queue.
    virtual std::uint32_t waiting() const noexcept = 0;
    // While nonzero, the peer need not announce its deliveries.
    virtual std::atomic<std::uint32_t> &watched() noexcept = 0;
};

// Sources of a completion queue, whose lock guards them. A take() checks the watched and the announced ones.
class inbound_sources
{
public:
    inbound_sources() { watched_.reserve(watch_limit); }
    void use(cq_block &words) noexcept { words_ = &words; }

    std::uint32_t add(inbound_source &source);
    void remove(inbound_source &source);
    void announce(const inbound_source &source) noexcept;
    int take(int entries, ibv_wc *wc)
    {
        int count = 0;
        for (inbound_source *source : watched_) {
            if (count == entries)
                return count;
            count += source->drain(wc + count, entries - count);
        }
        if (count < entries && words_->summary.load(std::memory_order_acquire) != 0)
            count += take_announced(entries - count, wc + count);
        return count;
    }
    std::uint32_t waiting() const noexcept; // delivered messages that no take() has returned

private:
    // Maximum number of sources that each poll checks. Others, possibly hundreds, announce their deliveries.
    static constexpr std::size_t watch_limit = 8;

    int take_announced(int entries, ibv_wc *wc);
    void watch(inbound_source &source);

    cq_block *words_ = nullptr;
    std::vector<inbound_source *> watched_; // drained at each poll
    std::vector<inbound_source *> sources_; // indexed as announced; NULL if free
    std::size_t next_to_unwatch_ = 0;
};

} // namespace softrdma
