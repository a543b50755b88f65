// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/mr.hpp"
#include "base/or_no_memory.hpp"
#include "base/log.hpp"
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

// With more regions than this, keys are no longer chosen to have a free slot.
constexpr std::size_t high_watermark = region_slots / 8 * 7;

constexpr unsigned known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                                  IBV_ACCESS_HUGETLB;

struct idle_regions {
    ordered_mutex lock{lock_level::leaf};
    condition changed;
};

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
    if (mapping().extents().empty() || !mapping().stored(reinterpret_cast<std::uintptr_t>(begin), bytes))
        return false;
    (parent_ == nullptr ? *this : *parent_).unsynced_.store(true, std::memory_order_relaxed);
    return true;
}

region_kind memory_region::kind() const noexcept
{
    const auto &extents = mapping().extents();
    if (extents.empty())
        return region_kind::unmappable;
    const auto begin = reinterpret_cast<std::uintptr_t>(addr);
    if (extents.size() > 1 || extents[0].begin > begin || extents[0].end < begin + length)
        return region_kind::mixed;
    return extents[0].kind == pmem::durability::direct_access ? region_kind::direct_access : region_kind::shared_file;
}

region_pin::~region_pin()
{
    if (region_ != nullptr)
        region_table::released(region_->users_);
}

region_table &region_table::instance()
{
    static constinit process::single<region_table> table;
    return table.get([] { return new region_table; });
}

void region_table::released(std::atomic<int> &users) noexcept
{
    // The top bit is set while a thread waits for the count to drop.
    if (users.fetch_sub(1, std::memory_order_acq_rel) < 0) {
        idle_regions &i = process::instance<idle_regions>();
        const lock_guard guard(i.lock);
        i.changed.notify_all();
    }
}

region_table::counts region_table::totals() const
{
    const shared_guard lock(mutex_);
    counts all{};
    for (const auto &[index, region] : regions_) {
        if (region->parent_ != nullptr) {
            ++all.windows;
        } else if (region->pd != nullptr) {
            ++all.regions;
            all.bytes += region->length;
        }
    }
    return all;
}

// Returns a key, or 0. Slots are used in turn, so a released one is not reused soon. The rest of a key is random.
std::uint32_t region_table::unused_key()
{
    do
        latest_slot_ = (latest_slot_ + 1) % region_slots;
    while (regions_.size() < high_watermark && slots_[latest_slot_].region.load(std::memory_order_relaxed) != nullptr);
    constexpr std::uint32_t slot_bits = (region_slots - 1) << key_variant_bits;
    std::uint32_t key = 0;
    do {
        if (getrandom(&key, sizeof(key), 0) != sizeof(key))
            return 0;
        if (regions_.size() < high_watermark)
            key = (key & ~slot_bits) | latest_slot_ << key_variant_bits;
    } while (key == 0 || regions_.contains(key_index(key)));
    return key;
}

// Gives a region or window a key and adds it to the map. Returns false and sets errno if no random number is available.
bool region_table::insert(const std::shared_ptr<memory_region> &region)
{
    const std::uint32_t key = unused_key();
    if (key == 0)
        return fail_with(false, ENOMEM);
    region->set_key(key);
    regions_.emplace(key_index(key), region);
    return true;
}

region_table::region_table() : slots_(static_cast<slot *>(std::calloc(region_slots, sizeof(slot))))
{
    static_assert(std::is_trivially_destructible_v<slot>);
    if (slots_ == nullptr)
        throw std::bad_alloc();
}

bool region_table::claim(slot &s, memory_region &region) noexcept
{
    memory_region *const user = s.region.load(std::memory_order_relaxed);
    if (user == nullptr)
        s.region.store(&region, std::memory_order_relaxed);
    return user == nullptr || user == &region;
}

void region_table::publish(memory_region &region)
{
    SOFTRDMA_ASSERT(!region.withdrawn_);
    slot &s = slot_of(region.key_);
    if (!claim(s, region))
        return; // too many regions: this one is found in the map, and its owner executes the requests
    s.key.store(region.key_, std::memory_order_release);
    context_of(region.context)
            .memory.publish({.key = region.key_,
                    .domain = region.domain_,
                    .access = static_cast<std::uint32_t>(region.access_),
                    .base = region.iova_,
                    .length = region.length,
                    .address = reinterpret_cast<std::uintptr_t>(region.addr),
                    .kind = region.kind()});
}

void region_table::withdraw(memory_region &region)
{
    SOFTRDMA_ASSERT(region.withdrawn_); // pins are rejected before the key disappears
    slot &s = slot_of(region.key_);
    if (s.region.load(std::memory_order_relaxed) != &region)
        return;
    context_of(region.context).memory.withdraw(region.key_);
    s.key.store(0, std::memory_order_seq_cst);
    removals_.fetch_add(1, std::memory_order_seq_cst); // after the key, so that a thread that reads it finds no region
}

void region_table::forget(memory_region &region)
{
    if (is_published(region))
        slot_of(region.key_).region.store(nullptr, std::memory_order_release);
    const lock_guard lock(mutex_);
    SOFTRDMA_ASSERT(region.withdrawn_ && region.windows_ == 0);
    regions_.erase(key_index(region.key_));
}

std::byte *region_table::lookup_plain(const ibv_sge &sge, std::uint64_t domain) const noexcept
{
    const memory_region *region = find(sge.lkey, domain, IBV_ACCESS_LOCAL_WRITE, sge.addr, sge.length);
    const bool plain = region != nullptr && region->kind() == region_kind::unmappable && !region->may_fault();
    return plain ? region->at(sge.addr) : nullptr;
}

// Sets all members except the key of a region that is not published yet. Returns 0 or an errno value.
int memory_region::describe(ibv_pd *domain, void *begin, std::size_t bytes, std::uint64_t iova, unsigned access)
{
    if (const int error = check_access(access); error != 0)
        return error;
    const bool writable = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
    if (const int error = pmem::mapping::inspect(reinterpret_cast<std::uintptr_t>(begin), bytes, writable, mapping_);
            error != 0)
        return error;
    context = domain->context;
    pd = domain;
    addr = begin;
    length = bytes;
    domain_ = domain_of(domain);
    iova_ = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
    access_ = static_cast<int>(access) | access_local_read;
    if (may_fault())
        guard_mapped_files();
    if ((access & flush_access) != 0)
        context_of(context).memory.uses_flush().store(1, std::memory_order_relaxed);
    const bool is_rejected =
            (access & native::access_flush_persistent) != 0 && pmem::rejects_volatile() && !mapping_.is_durable(length);
    return is_rejected ? EINVAL : 0;
}

ibv_mr *region_table::add(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova, unsigned access)
{
    auto region = std::make_shared<memory_region>();
    if (const int error = region->describe(pd, addr, length, iova, access); error != 0) {
        log::write(log::level::info, "memory region: not registered: %zu bytes at %p, access %#x: %s", length, addr,
                access, strerror(error));
        return fail_with(nullptr, error);
    }
    const lock_guard lock(mutex_);
    if (!insert(region))
        return nullptr;
    region->handle = region->key_;
    publish(*region);
    pd_of(pd).children.fetch_add(1);
    return region.get();
}

// Withdraws the region, so that later lookups do not find it. Returns NULL and sets errno on error.
std::shared_ptr<memory_region> region_table::start_removal(const ibv_mr *mr)
{
    const lock_guard lock(mutex_);
    const auto *found = find_locked(mr->lkey);
    const int error = found == nullptr || found->get() != mr ? EINVAL : (*found)->windows_ > 0 ? EBUSY : 0;
    if (error != 0)
        return fail_with(nullptr, error);
    (*found)->withdrawn_ = true;
    withdraw(**found);
    return *found;
}

// Waits until earlier users have released the region. Returns false if a peer is stopped inside an access.
bool region_table::is_quiescent(memory_region &region)
{
    if (!reader_list::instance().in_progress(region.key_).ended_within(grace_limit)) {
        log::write(log::level::warn, "memory region %#x: busy: a peer is stopped inside an access (continue or end it)",
                region.key_);
        return false;
    }
    constexpr int waiting = INT32_MIN;
    if (region.users_.fetch_add(waiting, std::memory_order_acq_rel) != 0) {
        idle_regions &i = process::instance<idle_regions>();
        const lock_guard guard(i.lock);
        while (region.users_.load(std::memory_order_acquire) != waiting)
            i.changed.wait(i.lock);
    }
    SOFTRDMA_ASSERT(region.users_.load(std::memory_order_relaxed) == waiting); // no thread uses the region
    region.users_.store(0, std::memory_order_relaxed);
    if (is_published(region) && context_of(region.context).memory.has_unsynced(region.key_))
        region.unsynced_.store(true, std::memory_order_relaxed);
    return true;
}

// Syncs now, because a later flush can no longer reach these pages.
int memory_region::sync_what_was_stored() noexcept
{
    if (!unsynced_.exchange(false, std::memory_order_relaxed))
        return 0;
    return sync_mapped(reinterpret_cast<std::uintptr_t>(addr), length);
}

int region_table::remove(ibv_mr *mr)
{
    const std::shared_ptr<memory_region> region = start_removal(mr);
    if (region == nullptr)
        return errno;
    if (!is_quiescent(*region))
        return EBUSY;
    forget(*region);
    pd_of(region->pd).children.fetch_sub(1);
    return region->sync_what_was_stored();
}

int region_table::change_region(ibv_mr *mr, const change &to)
{
    const bool moves = (to.flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
    const bool has_new_pd = (to.flags & IBV_REREG_MR_CHANGE_PD) != 0;
    const bool has_new_access = (to.flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
    if (to.flags == 0 || (to.flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
            (moves && (to.addr == nullptr || to.length == 0)) || (has_new_pd && to.pd == nullptr))
        return EINVAL;
    auto &now = static_cast<memory_region &>(*mr);
    memory_region next;
    const int access = has_new_access ? to.access : now.access_ & ~access_local_read;
    const int error =
            next.describe(has_new_pd ? to.pd : now.pd, moves ? to.addr : now.addr, moves ? to.length : now.length,
                    moves ? reinterpret_cast<std::uintptr_t>(to.addr) : now.iova_, static_cast<unsigned>(access));
    if (error != 0)
        return error;
    const std::shared_ptr<memory_region> region = start_removal(mr);
    if (region == nullptr)
        return errno;
    const int failed = !is_quiescent(*region) ? EBUSY : region->sync_what_was_stored();
    const lock_guard lock(mutex_);
    if (failed == 0) {
        pd_of(next.pd).children.fetch_add(1);
        pd_of(region->pd).children.fetch_sub(1);
        region->take(next);
    }
    region->withdrawn_ = false;
    publish(*region);
    return failed;
}

region_pin region_table::pin(std::uint32_t key, std::uint64_t domain, int access, std::uint64_t va, std::uint64_t bytes,
        std::uint64_t other_domain)
{
    const shared_guard lock(mutex_);
    const auto *found = find_locked(key);
    if (found == nullptr)
        return {};
    const auto &region = *found;
    const std::uint64_t begin = va == any_address && bytes == 0 ? region->iova_ : va;
    if (region->withdrawn_ ||
            (!region->grants(domain, access, begin, bytes) && !region->grants(other_domain, access, begin, bytes)))
        return {};
    SOFTRDMA_ASSERT(region->users_.load(std::memory_order_relaxed) >= 0); // no thread waits for its last user
    region->users_.fetch_add(1, std::memory_order_acq_rel);
    return region_pin(region);
}

region_pin region_table::pin(const std::shared_ptr<memory_region> &region)
{
    region_pin found = pin(region->key_);
    return found && found.registered() == region ? std::move(found) : region_pin();
}

region_pin region_table::pin(std::uint32_t key)
{
    const shared_guard lock(mutex_);
    const auto *found = find_locked(key);
    if (found == nullptr || (*found)->withdrawn_)
        return {};
    (*found)->users_.fetch_add(1, std::memory_order_acq_rel);
    return region_pin(*found);
}

} // namespace softrdma
