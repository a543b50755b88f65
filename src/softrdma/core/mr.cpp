// SPDX-License-Identifier: BSD-3-Clause
#include "core/mr.hpp"
#include "core/native.hpp"
#include "pmem/policy.hpp"

#include <cerrno>
#include <new>
#include <sys/random.h>

namespace softrdma
{

namespace
{

constexpr unsigned flush_access = native::access_flush_global | native::access_flush_persistent;
constexpr unsigned known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB;

// Deregistration waits here for the last pin of its region.
std::mutex &idle_mutex()
{
    static auto *m = new std::mutex;
    return *m;
}

std::condition_variable &idle_changed()
{
    static auto *c = new std::condition_variable;
    return *c;
}

std::atomic<bool> knows_flush{false};

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

void program_knows_flush() noexcept
{
    knows_flush.store(true, std::memory_order_relaxed);
}

int rights_to_flush(bool global, bool persistent) noexcept
{
    if (!knows_flush.load(std::memory_order_relaxed))
        return IBV_ACCESS_REMOTE_READ;
    const unsigned rights =
            (persistent ? native::access_flush_persistent : 0) | (global ? native::access_flush_global : 0);
    return static_cast<int>(rights);
}

void region_pin::release() noexcept
{
    if (users_ != nullptr)
        region_table::released(*std::exchange(users_, nullptr));
    region_.reset();
}

region_table &region_table::instance()
{
    static auto *table = new region_table;
    return *table;
}

void region_table::released(std::atomic<int> &users) noexcept
{
    // The top bit says that somebody waits for the count to drop.
    if (users.fetch_sub(1, std::memory_order_acq_rel) < 0) {
        const std::lock_guard lock(idle_mutex());
        idle_changed().notify_all();
    }
}

std::uint32_t region_table::unused_key() const
{
    std::uint32_t key = 0;
    do {
        if (getrandom(&key, sizeof(key), 0) != sizeof(key))
            return 0;
    } while (key == 0 || regions_.contains(key));
    return key;
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
    if ((access & flush_access) != 0)
        program_knows_flush();
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
        region = std::move(found->second);
        regions_.erase(found);
    }
    constexpr int waiting = INT32_MIN;
    if (region->users_.fetch_add(waiting, std::memory_order_acq_rel) != 0) {
        std::unique_lock lock(idle_mutex());
        idle_changed().wait(lock, [&] { return region->users_.load(std::memory_order_acquire) == waiting; });
    }
    pd_of(region->pd).children.fetch_sub(1);
    // A flush that arrives later can no longer reach these pages.
    if (region->unsynced_.load(std::memory_order_relaxed))
        return region->sync(reinterpret_cast<std::uintptr_t>(region->addr), region->length);
    return 0;
}

region_pin region_table::pin(std::uint32_t key, const ibv_pd *pd, int access, std::uint64_t va, std::uint64_t bytes)
{
    const std::shared_lock lock(mutex_);
    const auto found = regions_.find(key);
    if (found == regions_.end())
        return {};
    const auto &region = found->second;
    if (region->pd != pd || (region->access() & access) != access)
        return {};
    const bool anywhere = va == any_address && bytes == 0;
    if (!anywhere && !region->contains(va, bytes))
        return {};
    region->users_.fetch_add(1, std::memory_order_acq_rel);
    return {region, region->users_};
}

region_pin region_table::pin(const std::shared_ptr<memory_region> &region)
{
    const std::shared_lock lock(mutex_);
    const auto found = regions_.find(region->lkey);
    if (found == regions_.end() || found->second != region)
        return {};
    region->users_.fetch_add(1, std::memory_order_acq_rel);
    return {region, region->users_};
}

} // namespace softrdma
