// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/mw.hpp"
#include "base/or_no_memory.hpp"
#include "base/assert.hpp"
#include "pmem/policy.hpp"
#include "verbs/native.hpp"
#include "verbs/qp_object.hpp"

#include <cerrno>

namespace softrdma
{

// A window has no local write access, but programs pass the flag.
constexpr unsigned window_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;

static bool is_known(unsigned access, ibv_mw_type type) noexcept
{
    const unsigned known =
            window_access | (pmem::native_verbs() ? native::access_flush_global | native::access_flush_persistent : 0);
    const bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
    return (access & ~known & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE)) == 0 &&
           (!zero_based || type == IBV_MW_TYPE_2);
}

ibv_mw *window_table::add(ibv_pd *pd, ibv_mw_type type)
{
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
        return fail_with(nullptr, EINVAL);
    auto w = std::make_unique<memory_window>();
    w->shown = region_table::instance().add_window(pd->context);
    if (w->shown == nullptr)
        return nullptr;
    w->context = pd->context;
    w->pd = pd;
    w->rkey = w->shown->key();
    w->handle = key_index(w->rkey);
    w->type = type;
    const std::uint32_t index = w->handle;
    const lock_guard lock(mutex_);
    ibv_mw *const added = windows_.emplace(index, std::move(w)).first->second.get();
    pd_of(pd).children.fetch_add(1);
    return added;
}

// Withdraws a window. If memory is exhausted, it remains bound, and the caller tries again.
void window_table::withdraw(memory_window &w)
{
    if (!w.bound)
        return;
    SOFTRDMA_ASSERT(!w.leaving); // a window is bound again only when its earlier users have left
    region_table::instance().withdraw_window(*w.shown);
    w.leaving.emplace(reader_list::instance().in_progress(w.shown->key()));
    w.bound = false;
}

bool window_table::is_quiescent(memory_window &w)
{
    if (w.leaving && w.leaving->ended() && region_table::instance().unbind(*w.shown))
        w.leaving.reset();
    return !w.leaving;
}

int window_table::remove(ibv_mw *mw)
{
    int result = EBUSY;
    becomes_true_within(grace_limit, [&] {
        const lock_guard lock(mutex_);
        const auto found = windows_.find(mw->handle);
        if (found == windows_.end() || found->second.get() != mw) {
            result = EINVAL;
            return true;
        }
        withdraw(*found->second);
        if (!is_quiescent(*found->second))
            return false;
        pd_of(mw->pd).children.fetch_sub(1);
        windows_.erase(found);
        result = 0;
        return true;
    });
    return result;
}

void window_table::unbind_invalidated(const ibv_mr *mr)
{
    becomes_true_within(grace_limit, [&] {
        const lock_guard lock(mutex_);
        bool all_quiescent = true;
        for (const auto &[index, w] : windows_)
            all_quiescent = (!w->leaving || w->shown->bound_to() != mr || is_quiescent(*w)) && all_quiescent;
        return all_quiescent;
    });
}

std::optional<ibv_wc_status> window_table::execute_request(const qp_object &qp, const wqe &w) noexcept
try {
    const lock_guard lock(mutex_);
    return w.op == IBV_WR_BIND_MW ? bind(qp, w.data.bind) : invalidate(qp, w.rkey);
} catch (const std::bad_alloc &) { // the request is posted already: tried again later
    return std::nullopt;
}

std::optional<ibv_wc_status> window_table::bind(const qp_object &qp, const bind_args &args)
{
    memory_window *w = find(args.key);
    if (w == nullptr || domain_of(w->pd) != domain_of(qp.qp_base.pd) || !is_known(args.access, w->type))
        return IBV_WC_MW_BIND_ERR;
    const bool type_1 = w->type == IBV_MW_TYPE_1;
    const bool unbinds = type_1 && args.length == 0;
    const region_table::window_bounds bounds{.key = args.key,
            .domain = type_1 ? domain_of(w->pd) : qp.own_domain,
            .region = args.region,
            .access = static_cast<int>(args.access),
            .addr = args.addr,
            .length = args.length};
    if ((!type_1 && (w->bound || args.length == 0)) || (!unbinds && !region_table::instance().allows(w->pd, bounds)))
        return IBV_WC_MW_BIND_ERR;
    withdraw(*w);
    if (!is_quiescent(*w))
        return std::nullopt;
    SOFTRDMA_ASSERT(!w->bound);
    if (unbinds)
        return IBV_WC_SUCCESS;
    w->bound = region_table::instance().bind(*w->shown, w->pd, bounds);
    return w->bound ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
}

memory_window *window_table::find_bound(const qp_object &qp, std::uint32_t key) const noexcept
{
    memory_window *w = find(key);
    const bool matches =
            w != nullptr && w->type == IBV_MW_TYPE_2 && w->shown->key() == key && w->shown->domain() == qp.own_domain;
    return matches ? w : nullptr;
}

std::optional<ibv_wc_status> window_table::invalidate(const qp_object &qp, std::uint32_t key)
{
    memory_window *w = find_bound(qp, key);
    if (w == nullptr || (!w->bound && !w->leaving))
        return IBV_WC_MW_BIND_ERR;
    withdraw(*w);
    return is_quiescent(*w) ? std::optional(IBV_WC_SUCCESS) : std::nullopt;
}

bool window_table::invalidate_for_peer(const qp_object &qp, std::uint32_t key)
{
    const lock_guard lock(mutex_);
    memory_window *w = find_bound(qp, key);
    if (w == nullptr || !w->bound)
        return false;
    withdraw(*w);
    is_quiescent(*w);
    return true;
}

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

// Returns the region, or NULL if the InfiniBand specification forbids the bind. Flush rights need those of the region.
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
