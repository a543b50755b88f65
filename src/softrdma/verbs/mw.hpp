// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/read_section.hpp"
#include "verbs/mr.hpp"
#include "verbs/wqe.hpp"

#include <optional>

namespace softrdma
{

class qp_object;

// Guarded by the table's lock.
struct memory_window : ibv_mw {
    ~memory_window()
    {
        if (shown != nullptr)
            region_table::instance().remove_window(*shown);
    }
    std::shared_ptr<memory_region> shown; // what requests see of it
    bool bound = false;
    // After it has been invalidated: those who may still be inside.
    std::optional<local::operations_in_progress> leaving;
};

// The memory windows of the process. A window that is invalidated is found by nobody from then on; it has left once
// those who had found it before do not use it any more. No call that says so returns, and no request completes, before
// that. A window of type 2 is found by requests of the peer of one queue pair only, the one that it was bound with.
class window_table
{
public:
    static window_table &instance();

    // NULL with errno: EINVAL, ENOMEM.
    ibv_mw *add(ibv_pd *pd, ibv_mw_type type);
    // 0, or EBUSY if a peer is inside and does not go on with it: then nobody finds the window, and this can be tried
    // again.
    int remove(ibv_mw *mw);
    // The windows bound to that region which have been invalidated, have left it; those that have not within the time
    // that an operation may last are still bound to it afterwards.
    void settle(const ibv_mr *mr);

    // Executes a request of that queue pair: BIND_MW or LOCAL_INV. Nothing: it has to be tried again, and nobody finds
    // the window meanwhile.
    std::optional<ibv_wc_status> carry_out(const qp_object &qp, const wqe &w);
    // The peer of that queue pair has asked for it. It has completed all that it has done with the window before, and
    // nobody else could use it. False if the key is not that of a window which it may use.
    bool invalidate_for_peer(const qp_object &qp, std::uint32_t key);

private:
    memory_window *find(std::uint32_t key) const noexcept REQUIRES(mutex_);
    memory_window *find_bound(const qp_object &qp, std::uint32_t key) const noexcept REQUIRES(mutex_);
    std::optional<ibv_wc_status> bind(const qp_object &qp, const bind_args &args) REQUIRES(mutex_);
    std::optional<ibv_wc_status> invalidate(const qp_object &qp, std::uint32_t key) REQUIRES(mutex_);
    void withdraw(memory_window &w) REQUIRES(mutex_);
    bool has_left(memory_window &w) REQUIRES(mutex_);

    ordered_mutex mutex_{lock_level::windows};
    std::unordered_map<std::uint32_t, std::unique_ptr<memory_window>> windows_ GUARDED_BY(
            mutex_); // by local::key_index()
};

} // namespace softrdma
