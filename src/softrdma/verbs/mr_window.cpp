// SPDX-License-Identifier: BSD-3-Clause
#include "base/assert.hpp"
#include "verbs/mr.hpp"
#include "verbs/native.hpp"

namespace softrdma
{

std::shared_ptr<memory_region> region_table::add_window(ibv_context *context)
{
    auto window = std::make_shared<memory_region>();
    window->context = context;
    window->withdrawn_ = true;
    const lock_guard lock(mutex_);
    if (!insert(window))
        return nullptr;
    claim(slot_of(window->key_), *window);
    return window;
}

void region_table::remove_window(memory_region &window)
{
    SOFTRDMA_ASSERT(window.parent_ == nullptr);
    forget(window);
}

bool region_table::allows(const ibv_pd *pd, const window_bounds &bounds) const
{
    const shared_guard lock(mutex_);
    return allowed(pd, bounds) != nullptr;
}

// Returns the region, or NULL if the InfiniBand specification forbids the bind. Flush access needs that of the region.
const std::shared_ptr<memory_region> *region_table::allowed(
        const ibv_pd *pd, const window_bounds &bounds) const noexcept
{
    constexpr int stores = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    constexpr int flushes = native::access_flush_global | native::access_flush_persistent;
    const int needed = IBV_ACCESS_MW_BIND | ((bounds.access & stores) != 0 ? IBV_ACCESS_LOCAL_WRITE : 0) |
                       (bounds.access & flushes);
    const auto *found = find_locked(bounds.region);
    const bool is_allowed = found != nullptr && !(*found)->withdrawn_ && (*found)->parent_ == nullptr &&
                            (*found)->grants(domain_of(pd), needed, bounds.addr, bounds.length);
    return is_allowed ? found : nullptr;
}

bool region_table::bind(memory_region &window, const ibv_pd *pd, const window_bounds &bounds)
{
    const lock_guard lock(mutex_);
    SOFTRDMA_ASSERT(window.withdrawn_ && window.parent_ == nullptr);
    SOFTRDMA_ASSERT(key_index(window.key_) == key_index(bounds.key));
    const auto *region = allowed(pd, bounds);
    if (region == nullptr)
        return false;
    window.set_key(bounds.key);
    window.domain_ = bounds.domain;
    window.access_ = bounds.access & ~(IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
    window.iova_ = (bounds.access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : bounds.addr;
    window.addr = (*region)->at(bounds.addr);
    window.length = bounds.length;
    window.parent_ = *region;
    window.withdrawn_ = false;
    ++(*region)->windows_;
    publish(window);
    return true;
}

void region_table::withdraw_window(memory_region &window)
{
    const lock_guard lock(mutex_);
    window.withdrawn_ = true;
    withdraw(window);
}

bool region_table::unbind(memory_region &window)
{
    const lock_guard lock(mutex_);
    SOFTRDMA_ASSERT(window.withdrawn_ && window.parent_ != nullptr && window.parent_->windows_ > 0);
    if (window.users_.load(std::memory_order_acquire) != 0)
        return false;
    if (is_published(window) && context_of(window.context).memory.has_unsynced(window.key_))
        window.parent_->unsynced_.store(true, std::memory_order_relaxed);
    --window.parent_->windows_;
    window.parent_.reset();
    return true;
}

} // namespace softrdma
