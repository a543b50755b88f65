// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "pmem/mapping.hpp"
#include "verbs/objects.hpp"

#include <cstdint>
#include <cstdlib>
#include <infiniband/verbs.h>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

namespace softrdma
{

inline constexpr int access_local_read = 1 << 30; // right of the owner to each of its regions

class alignas(cache_line) memory_region : public ibv_mr
{
public:
    int access() const noexcept { return access_; }
    // Returns true if [va, va + bytes) in the region's own addressing lies inside it, without wrapping.
    bool contains(std::uint64_t va, std::uint64_t bytes) const noexcept
    {
        return va >= iova_ && bytes <= length && va - iova_ <= length - bytes;
    }
    // Returns whether requests of that domain that need all of `access` may use the range.
    bool grants(std::uint64_t domain, int access, std::uint64_t va, std::uint64_t bytes) const noexcept
    {
        return domain_ == domain && (access_ & access) == access && contains(va, bytes);
    }
    std::byte *at(std::uint64_t va) const noexcept { return static_cast<std::byte *>(addr) + (va - iova_); }

    void about_to_store(const std::byte *begin, std::size_t bytes) const
    {
        mapping().about_to_store(reinterpret_cast<std::uintptr_t>(begin), bytes);
    }
    bool stored(const std::byte *begin, std::size_t bytes) noexcept; // returns true if durability needs sync()
    int sync(std::uintptr_t begin, std::size_t bytes) const noexcept { return mapping().sync(begin, bytes); }
    // Like sync(), but ignores memory that the program has unmapped: as in an RNIC, the region outlives the mapping.
    int sync_mapped(std::uintptr_t begin, std::size_t bytes) const noexcept
    {
        const int error = sync(begin, bytes);
        return error == ENOMEM ? 0 : error;
    }
    region_kind kind() const noexcept;
    bool may_fault() const noexcept { return mapping().may_fault(); } // then guard accesses (base/guard.hpp)
    std::uint64_t domain() const noexcept { return domain_; }
    std::uint32_t key() const noexcept { return key_; }
    const memory_region *bound_to() const noexcept { return parent_.get(); } // NULL unless it is a bound window

private:
    friend class region_table;
    friend class region_pin;
    int describe(ibv_pd *domain, void *begin, std::size_t bytes, std::uint64_t iova, unsigned access);
    void take(memory_region &from) noexcept
    {
        pd = from.pd;
        addr = from.addr;
        length = from.length;
        domain_ = from.domain_;
        access_ = from.access_;
        iova_ = from.iova_;
        mapping_ = std::move(from.mapping_);
    }
    int sync_what_was_stored() noexcept;
    const pmem::mapping &mapping() const noexcept { return parent_ == nullptr ? mapping_ : parent_->mapping_; }

    void set_key(std::uint32_t key) noexcept { lkey = rkey = key_ = key; }

    std::uint32_t key_ = 0; // lkey and rkey are visible to the program, which can change them
    std::uint64_t domain_ = 0;
    int access_ = 0;
    std::uint64_t iova_ = 0;
    pmem::mapping mapping_;
    std::atomic<int> users_{0};
    std::atomic<bool> unsynced_{false};
    // Guarded by the lock of the table. The parent of a window changes only while no thread uses the window.
    bool withdrawn_ = false;
    unsigned windows_ = 0;                  // number of windows bound to this region
    std::shared_ptr<memory_region> parent_; // region of a bound window
};

// Keeps a region registered while its memory is read or written.
class region_pin
{
public:
    region_pin() = default;
    // The caller has counted this user of the region.
    explicit region_pin(std::shared_ptr<memory_region> region) noexcept : region_(std::move(region)) {}
    region_pin(region_pin &&other) noexcept = default;
    region_pin &operator=(region_pin &&other) noexcept
    {
        std::swap(region_, other.region_);
        return *this;
    }
    ~region_pin();

    explicit operator bool() const noexcept { return region_ != nullptr; }
    memory_region *operator->() const noexcept { return region_.get(); }
    // The registered region: of a window, the region that it is bound to.
    const std::shared_ptr<memory_region> &registered() const noexcept
    {
        return region_->parent_ == nullptr ? region_ : region_->parent_;
    }

private:
    std::shared_ptr<memory_region> region_;
};

class region_table
{
public:
    static region_table &instance();

    ibv_mr *add(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova, unsigned access);
    // Changes a region like ibv_rereg_mr(), or returns an errno value. EBUSY: a window is bound, or a peer is stopped.
    struct change {
        int flags;
        ibv_pd *pd;
        void *addr;
        std::size_t length;
        int access;
    };
    int change_region(ibv_mr *mr, const change &to);
    // Returns 0, EBUSY as change_region(), or the error of the last sync. After EBUSY, the region can only be removed.
    int remove(ibv_mr *mr);

    // Pins the region of the key if a domain and `access` permit the range; `any_address` with 0 bytes is inside.
    region_pin pin(std::uint32_t key, std::uint64_t domain, int access, std::uint64_t va, std::uint64_t bytes,
            std::uint64_t other_domain = no_domain);
    static constexpr std::uint64_t no_domain = 0;
    static constexpr std::uint64_t any_address = UINT64_MAX;
    region_pin pin(const std::shared_ptr<memory_region> &region); // pins a region; empty if it has been deregistered
    region_pin pin(std::uint32_t key);                            // ignores domain and access

    // While bound, windows (verbs/mw.hpp) are found like regions, by keys of their own.
    std::shared_ptr<memory_region> add_window(ibv_context *context); // unbound; NULL with errno ENOMEM on error
    void remove_window(memory_region &window)
    {
        SOFTRDMA_ASSERT(window.parent_ == nullptr);
        forget(window);
    }
    struct window_bounds {
        std::uint32_t key;    // key of the window after the bind
        std::uint64_t domain; // in which it is found
        std::uint32_t region; // key of the region
        int access;
        std::uint64_t addr; // in the region's own addressing
        std::uint64_t length;
    };
    bool allows(const ibv_pd *pd, const window_bounds &bounds) const
    {
        const shared_guard lock(mutex_);
        return allowed(pd, bounds) != nullptr;
    }
    // Returns false if the bind is not allowed. The window must be unbound.
    bool bind(memory_region &window, const ibv_pd *pd, const window_bounds &bounds);
    void withdraw_window(memory_region &window);
    // Unbinds a withdrawn window. Returns false while a thread of this process still uses it.
    bool unbind(memory_region &window);

    struct counts {
        std::size_t regions;
        std::uint64_t bytes; // total size of the regions
        std::size_t windows; // bound windows only
    };
    counts totals() const;

    static void released(std::atomic<int> &users) noexcept;

    // Returns the address, valid inside a section known to reader_list, without a lock; NULL if pin() must be used.
    std::byte *lookup(
            std::uint32_t key, std::uint64_t domain, int access, std::uint64_t va, std::uint64_t bytes) const noexcept
    {
        const memory_region *region = find(key, domain, access, va, bytes);
        return region == nullptr ? nullptr : region->at(va);
    }
    // Like lookup(), for a receive buffer that a peer fills: writable, without durability or missing pages.
    std::byte *lookup_plain(const ibv_sge &sge, std::uint64_t domain) const noexcept;
    // Number of removed regions. Inside a section, a looked-up address remains valid while this number is unchanged.
    std::uint64_t removals() const noexcept { return removals_.load(std::memory_order_acquire); }

private:
    struct slot {
        std::atomic<std::uint32_t> key{0};            // 0 if no region can be found here
        std::atomic<memory_region *> region{nullptr}; // NULL if the slot is free
    };

    region_table();
    std::uint32_t unused_key() REQUIRES(mutex_);
    bool insert(const std::shared_ptr<memory_region> &region) REQUIRES(mutex_);
    std::shared_ptr<memory_region> start_removal(const ibv_mr *mr);
    bool is_quiescent(memory_region &region);
    const std::shared_ptr<memory_region> *find_locked(std::uint32_t key) const noexcept REQUIRES_SHARED(mutex_)
    {
        const auto found = regions_.find(key_index(key));
        return found == regions_.end() || found->second->key_ != key ? nullptr : &found->second;
    }
    const std::shared_ptr<memory_region> *allowed(const ibv_pd *pd, const window_bounds &bounds) const noexcept
            REQUIRES_SHARED(mutex_);
    bool is_published(const memory_region &region) const noexcept
    {
        return slot_of(region.key_).region.load(std::memory_order_relaxed) == &region;
    }
    static bool claim(slot &s, memory_region &region) noexcept; // false if another region uses the slot
    void publish(memory_region &region) REQUIRES(mutex_);
    void withdraw(memory_region &region) REQUIRES(mutex_);
    void forget(memory_region &region);
    slot &slot_of(std::uint32_t key) const noexcept { return slots_[slot_index(key)]; }
    const memory_region *find(
            std::uint32_t key, std::uint64_t domain, int access, std::uint64_t va, std::uint64_t bytes) const noexcept
    {
        const slot &s = slot_of(key);
        if (key == 0 || s.key.load(std::memory_order_acquire) != key)
            return nullptr;
        const memory_region *region = s.region.load(std::memory_order_relaxed);
        return region->grants(domain, access, va, bytes) ? region : nullptr;
    }

    mutable ordered_shared_mutex mutex_{lock_level::regions};
    std::unordered_map<std::uint32_t, std::shared_ptr<memory_region>> regions_ GUARDED_BY(
            mutex_); // keyed by key_index()
    struct memory_deleter {
        void operator()(slot *slots) const noexcept { std::free(slots); }
    };
    // Zero bytes are free slots. Unused slots therefore use no memory and need no initialization.
    std::unique_ptr<slot[], memory_deleter> slots_;
    std::uint32_t latest_slot_ GUARDED_BY(mutex_) = 0;
    std::atomic<std::uint64_t> removals_{0};
};

// Faults the pages of the ranges in if the flags request it, otherwise reads them ahead. Returns 0, EOPNOTSUPP, EINVAL,
// or EFAULT for a range that has no memory, or no region of the domain with the access that the advice needs.
int advise_regions(ibv_pd *pd, ibv_advise_mr_advice advice, std::uint32_t flags, std::span<const ibv_sge> ranges);

} // namespace softrdma
