// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "transport/shared_memory.hpp"
#include "transport/shm/layout.hpp"

#include <map>
#include <memory>
#include <vector>

namespace softrdma
{

// Memory that this process shares with its peers; private memory if the policy or the system allows no sharing.
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

    // Peers detect the end of the calling thread, which must last as long as the process.
    void hold_liveness_futex() noexcept;

    std::shared_ptr<block> allocate(std::size_t size) override;
    std::shared_ptr<block> find(std::uint64_t offset); // NULL if it is not in use

    std::uint64_t next_serial() noexcept override { return serial_.fetch_add(1, std::memory_order_relaxed) + 1; }

    void publish(const published_region &region) noexcept override;
    void withdraw(std::uint32_t key) noexcept override
    {
        slot(slot_index(key)).key.store(0, std::memory_order_seq_cst);
    }
    bool has_unsynced(std::uint32_t key) const noexcept override
    {
        return slot(slot_index(key)).unsynced.load(std::memory_order_relaxed) != 0;
    }
    std::atomic<std::uint32_t> &uses_flush() noexcept override { return facts().uses_flush; }

private:
    class arena_block;
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
    std::uint64_t end_ GUARDED_BY(mutex_) = 0; // end of the blocks in use
    struct blocks {
        std::vector<std::uint64_t> free; // capacity for all blocks
        std::size_t all = 0;
    };
    std::map<std::size_t, blocks> blocks_ GUARDED_BY(mutex_); // keyed by size
    std::map<std::uint64_t, std::weak_ptr<block>> used_ GUARDED_BY(mutex_);
};

} // namespace softrdma
