// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/read_section.hpp"
#include "verbs/mr.hpp"
#include "verbs/wqe.hpp"

#include <optional>

namespace softrdma
{

class qp_object;

struct memory_window : ibv_mw {
    ~memory_window()
    {
        if (shown != nullptr)
            region_table::instance().remove_window(*shown);
    }
    std::shared_ptr<memory_region> shown; // window in the region table
    bool bound = false;
    std::optional<grace_period> leaving; // requests that may still use the invalidated window
};

// Memory windows of the process. Calls return and requests complete when the earlier users of an invalidated window
// have released it. A type 2 window is only found by the peer of the queue pair that bound it.
class window_table
{
public:
    static window_table &instance() { return process::instance<window_table>(); }

    ibv_mw *add(ibv_pd *pd, ibv_mw_type type);
    // Returns 0, or EBUSY if a peer is stopped inside an access: lookups then fail, and the caller can retry.
    int remove(ibv_mw *mw);
    // Unbinds the invalidated windows of that region, except those in use after the grace limit.
    void unbind_invalidated(const ibv_mr *mr);

    // Executes a BIND_MW or LOCAL_INV request. Returns std::nullopt if the caller must retry; until then lookups fail.
    std::optional<ibv_wc_status> execute_request(const qp_object &qp, const wqe &w) noexcept;
    // Invalidates a window for the peer of that queue pair, its only user. Returns false if it has no such window.
    bool invalidate_for_peer(const qp_object &qp, std::uint32_t key);

private:
    memory_window *find(std::uint32_t key) const noexcept REQUIRES(mutex_)
    {
        const auto found = windows_.find(key_index(key));
        return found == windows_.end() ? nullptr : found->second.get();
    }
    memory_window *find_bound(const qp_object &qp, std::uint32_t key) const noexcept REQUIRES(mutex_);
    std::optional<ibv_wc_status> bind(const qp_object &qp, const bind_args &args) REQUIRES(mutex_);
    std::optional<ibv_wc_status> invalidate(const qp_object &qp, std::uint32_t key) REQUIRES(mutex_);
    void withdraw(memory_window &w) REQUIRES(mutex_);
    bool is_quiescent(memory_window &w) REQUIRES(mutex_);

    ordered_mutex mutex_{lock_level::windows};
    std::unordered_map<std::uint32_t, std::unique_ptr<memory_window>> windows_ GUARDED_BY(
            mutex_); // keyed by key_index()
};

} // namespace softrdma
