// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/mr.hpp"
#include "base/assert.hpp"
#include "base/read_section.hpp"
#include "base/guard.hpp"
#include "pmem/policy.hpp"
#include "verbs/native.hpp"
#include "base/process.hpp"

#include <cerrno>
#include <new>
#include <sys/random.h>

namespace softrdma
{

namespace
{

constexpr unsigned flush_access = native::access_flush_global | native::access_flush_persistent;

// Beyond that many regions keys are not looked for until they hit a free slot.
constexpr std::size_t crowded = local::region_slots / 8 * 7;

constexpr unsigned known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                                  IBV_ACCESS_HUGETLB;

// Deregistration waits here for the last pin of its region.
std::mutex &idle_mutex()
{
    static constinit process::single<std::mutex> m;
    return m.get();
}

std::condition_variable &idle_changed()
{
    static constinit process::single<std::condition_variable> c;
    return c.get();
}

int check_access(unsigned access) noexcept
{
    access &= ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);
    if ((access & ~(known_access | (pmem::native_verbs() ? flush_access : 0))) != 0)
        return EOPNOTSUPP;
    const bool remote_store = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
    return remote_store && (access & IBV_ACCESS_LOCAL_WRITE) == 0 ? EINVAL : 0;
}

} // namespace

bool memory_region::stored(const std::byte *begin, std::size_t bytes) noexcept
{
    if (mapping_.extents().empty() || !mapping_.stored(reinterpret_cast<std::uintptr_t>(begin), bytes))
        return false;
    unsynced_.store(true, std::memory_order_relaxed);
    return true;
}

local::region_kind memory_region::kind() const noexcept
{
    const auto &extents = mapping_.extents();
    if (extents.empty())
        return local::region_kind::unmappable;
    const auto begin = reinterpret_cast<std::uintptr_t>(addr);
    if (extents.size() > 1 || extents[0].begin > begin || extents[0].end < begin + length)
        return local::region_kind::mixed;
    return extents[0].kind == pmem::durability::direct_access ? local::region_kind::direct_access
                                                              : local::region_kind::shared_file;
}

void region_pin::release() noexcept
{
    if (users_ != nullptr)
        region_table::released(*std::exchange(users_, nullptr));
    region_.reset();
}

region_table &region_table::instance()
{
    static constinit process::single<region_table> table;
    return table.get([] { return new region_table; });
}

void region_table::released(std::atomic<int> &users) noexcept
{
    // The top bit says that somebody waits for the count to drop.
    if (users.fetch_sub(1, std::memory_order_acq_rel) < 0) {
        const std::lock_guard lock(idle_mutex());
        idle_changed().notify_all();
    }
}

std::pair<std::size_t, std::uint64_t> region_table::totals()
{
    const std::shared_lock lock(mutex_);
    std::uint64_t bytes = 0;
    for (const auto &[key, region] : regions_)
        bytes += region->length;
    return {regions_.size(), bytes};
}

// Slots are used in turn: those of many regions lie side by side, and one that was left is not used again soon. The
// rest of a key is random.
std::uint32_t region_table::unused_key()
{
    do
        latest_slot_ = (latest_slot_ + 1) % local::region_slots;
    while (regions_.size() < crowded && slot_of(latest_slot_).region.load(std::memory_order_relaxed) != nullptr);
    std::uint32_t key = 0;
    do {
        if (getrandom(&key, sizeof(key), 0) != sizeof(key))
            return 0;
        if (regions_.size() < crowded)
            key = key / local::region_slots * local::region_slots + latest_slot_;
    } while (key == 0 || regions_.contains(key));
    return key;
}

region_table::region_table() : slots_(std::make_unique<slot[]>(local::region_slots)) {}

void region_table::publish(memory_region &region)
{
    slot &own = slot_of(region.rkey);
    if (own.region.load(std::memory_order_relaxed) != nullptr)
        return; // too many regions: this one is found by way of the map, and served by its owner
    own.region.store(&region, std::memory_order_relaxed);
    own.key.store(region.rkey, std::memory_order_release);
    context_of(region.context)
            .memory.publish({.key = region.rkey,
                    .domain = pd_of(region.pd).number,
                    .access = static_cast<std::uint32_t>(region.access_),
                    .base = region.iova_,
                    .length = region.length,
                    .address = reinterpret_cast<std::uintptr_t>(region.addr),
                    .kind = region.kind()});
}

void region_table::withdraw(memory_region &region)
{
    slot &own = slot_of(region.rkey);
    if (own.region.load(std::memory_order_relaxed) != &region)
        return;
    context_of(region.context).memory.withdraw(region.rkey);
    own.key.store(0, std::memory_order_seq_cst);
    removals_.fetch_add(1, std::memory_order_seq_cst); // not before: who knows this number cannot find the region
}

// Once nobody uses it.
void region_table::forget(memory_region &region)
{
    slot &own = slot_of(region.rkey);
    if (own.region.load(std::memory_order_relaxed) == &region) {
        if (context_of(region.context).memory.has_unsynced(region.rkey))
            region.unsynced_.store(true, std::memory_order_relaxed);
        own.region.store(nullptr, std::memory_order_release);
    }
    const std::unique_lock lock(mutex_);
    regions_.erase(region.lkey);
}

std::byte *region_table::look_up_plain(const ibv_sge &sge, const ibv_pd *pd) const noexcept
{
    const memory_region *region = find(sge.lkey, pd, IBV_ACCESS_LOCAL_WRITE, sge.addr, sge.length);
    const bool plain = region != nullptr && region->kind() == local::region_kind::unmappable;
    return plain ? region->at(sge.addr) : nullptr;
}

ibv_mr *region_table::add(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova, unsigned access)
{
    if (const int error = check_access(access); error != 0) {
        errno = error;
        return nullptr;
    }
    auto region = std::make_shared<memory_region>();
    const auto begin = reinterpret_cast<std::uintptr_t>(addr);
    const bool writable = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
    if (const int error = pmem::mapping::inspect(begin, length, writable, region->mapping_); error != 0) {
        errno = error;
        return nullptr;
    }
    if (region->kind() != local::region_kind::unmappable)
        guard_mapped_files();
    if ((access & flush_access) != 0)
        context_of(pd->context).memory.knows_flush().store(1, std::memory_order_relaxed);
    if ((access & native::access_flush_persistent) != 0 && pmem::refuses_volatile() &&
            !region->mapping_.is_durable(length)) {
        errno = EINVAL;
        return nullptr;
    }
    region->context = pd->context;
    region->pd = pd;
    region->addr = addr;
    region->length = length;
    region->iova_ = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
    region->access_ = static_cast<int>(access);
    const std::unique_lock lock(mutex_);
    const std::uint32_t key = unused_key();
    if (key == 0) {
        errno = ENOMEM;
        return nullptr;
    }
    region->lkey = key;
    region->rkey = key;
    region->handle = key;
    regions_.emplace(key, region);
    publish(*region);
    pd_of(pd).children.fetch_add(1);
    return region.get();
}

int region_table::remove(ibv_mr *mr)
{
    std::shared_ptr<memory_region> region;
    {
        const std::unique_lock lock(mutex_);
        const auto found = regions_.find(mr->lkey);
        if (found == regions_.end() || found->second.get() != mr)
            return EINVAL;
        region = found->second;
        region->withdrawn_ = true;
        withdraw(*region);
    }
    if (!local::reader_list::instance().in_progress(mr->rkey).ended_within(local::longest_operation))
        return EBUSY;
    constexpr int waiting = INT32_MIN;
    if (region->users_.fetch_add(waiting, std::memory_order_acq_rel) != 0) {
        std::unique_lock lock(idle_mutex());
        idle_changed().wait(lock, [&] { return region->users_.load(std::memory_order_acquire) == waiting; });
    }
    SOFTRDMA_ASSERT(region->users_.load(std::memory_order_relaxed) == waiting); // nobody is inside any more
    forget(*region);
    pd_of(region->pd).children.fetch_sub(1);
    // A flush that arrives later can no longer reach these pages.
    if (region->unsynced_.load(std::memory_order_relaxed))
        return region->sync_mapped(reinterpret_cast<std::uintptr_t>(region->addr), region->length);
    return 0;
}

region_pin region_table::pin(std::uint32_t key, const ibv_pd *pd, int access, std::uint64_t va, std::uint64_t bytes)
{
    const std::shared_lock lock(mutex_);
    const auto found = regions_.find(key);
    if (found == regions_.end())
        return {};
    const auto &region = found->second;
    const bool anywhere = va == any_address && bytes == 0;
    if (region->withdrawn_ || !region->grants(pd, access, anywhere ? region->iova_ : va, bytes))
        return {};
    region->users_.fetch_add(1, std::memory_order_acq_rel);
    return {region, region->users_};
}

region_pin region_table::pin(const std::shared_ptr<memory_region> &region)
{
    region_pin found = pin(region->lkey);
    return found.region() == region ? std::move(found) : region_pin();
}

region_pin region_table::pin(std::uint32_t key)
{
    const std::shared_lock lock(mutex_);
    const auto found = regions_.find(key);
    if (found == regions_.end() || found->second->withdrawn_)
        return {};
    found->second->users_.fetch_add(1, std::memory_order_acq_rel);
    return {found->second, found->second->users_};
}

} // namespace softrdma
