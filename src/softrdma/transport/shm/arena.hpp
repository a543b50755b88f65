// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "transport/shared_memory.hpp"
#include "transport/shm/layout.hpp"

#include <map>
#include <memory>
#include <vector>

namespace softrdma::local
{

// The memory that this process shares with its peers, made with its first object. Without peers of its own host
// (policy, or a system that refuses) it is ordinary memory.
class arena final : public shared_memory
{
public:
    static arena &instance();

    bool shared() const noexcept { return fd_ >= 0; }
    int fd() const noexcept { return fd_; }
    const token_bytes &token() const noexcept { return token_; }
    std::uint64_t start_time() const noexcept { return start_time_; }

    region_slot &slot(std::uint32_t index) const noexcept { return slots_[index]; }

    arena_facts &facts() const noexcept
    {
        std::byte *tables = reinterpret_cast<std::byte *>(slots_) - page;
        return *reinterpret_cast<arena_facts *>(tables + facts_offset);
    }

    // Peers are told when the calling thread ends, however it ends: to be called by one that lasts.
    void hold_liveness_futex() noexcept;

    std::shared_ptr<block> allocate(std::size_t size) override;
    // The block there, if it is in use.
    std::shared_ptr<block> find(std::uint64_t offset);

    std::uint64_t next_serial() noexcept override { return serial_.fetch_add(1, std::memory_order_relaxed) + 1; }

    void publish(const published_region &region) noexcept override;
    void withdraw(std::uint32_t key) noexcept override;
    bool has_unsynced(std::uint32_t key) const noexcept override;
    std::atomic<std::uint32_t> &knows_flush() noexcept override { return facts().knows_flush; }

private:
    class piece;
    arena();
    void open_file();
    bool empty(const block &b) const noexcept;
    void release(const block &b);

    int fd_ = -1;
    token_bytes token_{};
    std::uint64_t start_time_ = 0;
    region_slot *slots_ = nullptr;
    std::atomic<std::uint64_t> serial_{0};

    std::uint64_t size_ = 0;
    ordered_mutex mutex_{lock_level::tables};
    std::uint64_t end_ GUARDED_BY(mutex_) = 0; // of what has been handed out
    struct blocks {
        std::vector<std::uint64_t> free; // has room for all
        std::size_t all = 0;
    };
    std::map<std::size_t, blocks> blocks_ GUARDED_BY(mutex_); // by size
    std::map<std::uint64_t, std::weak_ptr<block>> used_ GUARDED_BY(mutex_);
};

} // namespace softrdma::local
