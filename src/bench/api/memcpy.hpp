// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>
#include <sys/epoll.h>
#include <vector>

#include "engine/target_memory.hpp"
#include "failure.hpp"
#include "sides.hpp"

// Baseline without a network: the client copies from and to the target's memory in its own process, and persists the
// range of a flush. An operation is complete when its function returns.
namespace bench::memcpy_api
{

class connection
{
public:
    connection(std::byte *local, const target_memory &target) : local_(local), target_(target) {}

    void read(std::size_t local, std::size_t remote, std::size_t len, std::uint64_t context)
    {
        std::memcpy(local_ + local, target_.data() + remote, len);
        complete(context);
    }
    void write(std::size_t local, std::size_t remote, std::size_t len, signal when, std::uint64_t context)
    {
        std::memcpy(target_.data() + remote, local_ + local, len);
        complete_if(when, context);
    }
    void atomic_write(std::size_t remote, const char (&value)[8], signal when, std::uint64_t context)
    {
        std::uint64_t word;
        std::memcpy(&word, value, sizeof word);
        __atomic_store_n(reinterpret_cast<std::uint64_t *>(target_.data() + remote), word, __ATOMIC_RELEASE);
        complete_if(when, context);
    }
    void flush(std::size_t remote, std::size_t len, bool persistent, signal when, std::uint64_t context)
    {
        if (persistent)
            target_.persist(remote, len);
        complete_if(when, context);
    }

    int poll(ibv_wc *wc, int max_count)
    {
        int got = 0;
        for (; got < max_count && taken_ < done_.size(); ++got) {
            wc[got].wr_id = done_[taken_++];
            wc[got].status = IBV_WC_SUCCESS;
        }
        if (taken_ == done_.size()) {
            done_.clear();
            taken_ = 0;
        }
        return got;
    }
    int completion_fd() const { return -1; }
    void acknowledge_event() {}
    static constexpr std::uint32_t epoll_events = EPOLLIN;
    void disconnect() {}

private:
    void complete(std::uint64_t context) { done_.push_back(context); }
    void complete_if(signal when, std::uint64_t context)
    {
        if (when == signal::always)
            complete(context);
    }

    std::byte *local_;
    const target_memory &target_;
    std::vector<std::uint64_t> done_;
    std::size_t taken_ = 0;
};

} // namespace bench::memcpy_api
