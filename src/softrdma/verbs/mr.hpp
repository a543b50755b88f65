// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "pmem/mapping.hpp"
#include "verbs/objects.hpp"

#include <condition_variable>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace softrdma
{

class alignas(local::line) memory_region : public ibv_mr
{
public:
    int access() const noexcept { return access_; }
    // True if [va, va + bytes) in the region's own addressing lies inside it, without wrapping.
    bool contains(std::uint64_t va, std::uint64_t bytes) const noexcept
    {
        return va >= iova_ && bytes <= length && va - iova_ <= length - bytes;
    }
    // Whether requests of that domain that need all of `access` may use the range.
    bool grants(const ibv_pd *domain, int access, std::uint64_t va, std::uint64_t bytes) const noexcept
    {
        return pd == domain && (access_ & access) == access && contains(va, bytes);
    }
    std::byte *at(std::uint64_t va) const noexcept { return static_cast<std::byte *>(addr) + (va - iova_); }

    // Before a store.
    void about_to_store(const std::byte *begin, std::size_t bytes) const
    {
        mapping_.about_to_store(reinterpret_cast<std::uintptr_t>(begin), bytes);
    }
    // Accounts a store that was just made. Returns true if durability needs sync().
    bool stored(const std::byte *begin, std::size_t bytes) noexcept;
    int sync(std::uintptr_t begin, std::size_t bytes) const noexcept { return mapping_.sync(begin, bytes); }
    // The same, but for what the program has unmapped: as on hardware, the region lives on without it.
    int sync_mapped(std::uintptr_t begin, std::size_t bytes) const noexcept
    {
        const int error = sync(begin, bytes);
        return error == ENOMEM ? 0 : error;
    }
    local::region_kind kind() const noexcept;

private:
    friend class region_table;
    std::uint64_t iova_ = 0;
    int access_ = 0;
    pmem::mapping mapping_;
    std::atomic<int> users_{0};
    std::atomic<bool> unsynced_{false};
    bool withdrawn_ = false; // guarded by the table's lock
};

// Keeps a region registered while it is being read or written.
class region_pin
{
public:
    region_pin() = default;
    region_pin(std::shared_ptr<memory_region> region, std::atomic<int> &users)
        : region_(std::move(region)), users_(&users)
    {
    }
    region_pin(region_pin &&other) noexcept
        : region_(std::move(other.region_)), users_(std::exchange(other.users_, nullptr))
    {
    }
    region_pin &operator=(region_pin &&other) noexcept
    {
        release();
        region_ = std::move(other.region_);
        users_ = std::exchange(other.users_, nullptr);
        return *this;
    }
    ~region_pin() { release(); }

    explicit operator bool() const noexcept { return region_ != nullptr; }
    memory_region *operator->() const noexcept { return region_.get(); }
    const std::shared_ptr<memory_region> &region() const noexcept { return region_; }

private:
    void release() noexcept;

    std::shared_ptr<memory_region> region_;
    std::atomic<int> *users_ = nullptr;
};

class region_table
{
public:
    static region_table &instance();

    // NULL with errno: EINVAL, EOPNOTSUPP, EFAULT, ENOMEM.
    ibv_mr *add(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova, unsigned access);
    // Waits for accesses in progress. Returns 0, EBUSY if a peer is inside one and does not go on with it, or the errno
    // value of a failed last sync. After EBUSY the region can be used for nothing but another try.
    int remove(ibv_mr *mr);

    // A pinned region if the key names one of this domain with all of `access` and the range lies inside it.
    // The range `any_address` of no bytes lies inside every region.
    region_pin pin(std::uint32_t key, const ibv_pd *pd, int access, std::uint64_t va, std::uint64_t bytes);
    static constexpr std::uint64_t any_address = UINT64_MAX;
    // A pin on a region that may have been deregistered meanwhile: then it is empty.
    region_pin pin(const std::shared_ptr<memory_region> &region);
    // Whatever its domain and rights.
    region_pin pin(std::uint32_t key);

    // How many regions there are, and their bytes.
    std::pair<std::size_t, std::uint64_t> totals();

    static void released(std::atomic<int> &users) noexcept;

    // Without locks: where the range is, or NULL if pin() has to be asked. To be called, and the answer to be used,
    // inside an epoch that is known to local::reader_list.
    std::byte *look_up(
            std::uint32_t key, const ibv_pd *pd, int access, std::uint64_t va, std::uint64_t bytes) const noexcept;
    // The same of what a receive may be placed in by a peer: writable, and nothing in need of durability.
    std::byte *look_up_plain(const ibv_sge &sge, const ibv_pd *pd) const noexcept;
    // How many regions have gone: in an epoch, what was looked up is where it was as long as none has.
    std::uint64_t removals() const noexcept { return removals_.load(std::memory_order_acquire); }

private:
    struct slot {
        std::atomic<std::uint32_t> key{0};            // 0: nothing can be found here
        std::atomic<memory_region *> region{nullptr}; // NULL: the slot is free
    };

    region_table();
    std::uint32_t unused_key();
    void publish(memory_region &region);
    // Nobody finds the region any more.
    void withdraw(memory_region &region);
    void forget(memory_region &region);
    slot &slot_of(std::uint32_t key) const noexcept { return slots_[key % local::region_slots]; }
    const memory_region *find(
            std::uint32_t key, const ibv_pd *pd, int access, std::uint64_t va, std::uint64_t bytes) const noexcept;

    std::shared_mutex mutex_;
    std::unordered_map<std::uint32_t, std::shared_ptr<memory_region>> regions_;
    std::unique_ptr<slot[]> slots_;
    std::uint32_t latest_slot_ = 0;
    std::atomic<std::uint64_t> removals_{0};
};

inline const memory_region *region_table::find(
        std::uint32_t key, const ibv_pd *pd, int access, std::uint64_t va, std::uint64_t bytes) const noexcept
{
    const slot &own = slot_of(key);
    if (key == 0 || own.key.load(std::memory_order_acquire) != key)
        return nullptr;
    const memory_region *region = own.region.load(std::memory_order_relaxed);
    return region->grants(pd, access, va, bytes) ? region : nullptr;
}

inline std::byte *region_table::look_up(
        std::uint32_t key, const ibv_pd *pd, int access, std::uint64_t va, std::uint64_t bytes) const noexcept
{
    const memory_region *region = find(key, pd, access, va, bytes);
    return region == nullptr ? nullptr : region->at(va);
}

} // namespace softrdma
