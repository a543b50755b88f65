// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <thread>

#include "arbiter.hpp"
#include "base/short_text.hpp"
#include "events.hpp"
#include "group/membership.hpp"
#include "local_copy.hpp"
#include "prometheus.hpp"
#include "remote_copy.hpp"
#include "wakeup.hpp"

namespace mirror
{

// Bit masks: targets that a flush awaits, only sends to or skips. Written under the membership lock, read by flushes.
struct alignas(std::uint64_t) roles {
    std::uint16_t awaited = 0; // send, and wait for it
    std::uint16_t syncing = 0; // send only
    std::uint16_t away = 0;    // skip, and mark the segments as dirty
    std::uint16_t unused = 0;  // pads the struct to one atomic 8-byte word
};

// Copies that failed, with errno values. Used on the data path: does not allocate.
struct failed_copies {
    std::uint32_t bits = 0;
    std::uint32_t slow = 0;                        // copies that confirmed, but reached the limit of late confirmations
    std::array<int, replica::max_copies> errors{}; // errno

    void add(unsigned copy, int error)
    {
        bits |= 1U << copy;
        errors[copy] = error;
    }
};

struct counters {
    std::atomic<std::uint64_t> flushes = 0, ranges = 0, bytes = 0, evictions = 0, resyncs = 0, compared = 0, sent = 0,
                               repaired = 0, late = 0, slow_evictions = 0;
    prometheus::histogram flush_time; // successful flushes

    void add_flush(const rpma_mirror_range *flushed, std::size_t n) noexcept
    {
        std::uint64_t length = 0;
        for (std::size_t i = 0; i < n; ++i)
            length += flushed[i].length;
        ++flushes;
        ranges += n;
        bytes += length;
    }
};

using group::each_copy;

// Mutex that detects reentry from a callback and reports RPMA_MIRROR_E_BUSY instead of deadlocking.
class membership_lock
{
public:
    void lock()
    {
        lock_.lock();
        holder_ = std::this_thread::get_id();
    }
    void unlock()
    {
        holder_ = std::thread::id();
        lock_.unlock();
    }
    bool is_held_by_caller() const { return holder_ == std::this_thread::get_id(); }
    void reject_reentry() const
    {
        if (is_held_by_caller())
            throw failure(RPMA_MIRROR_E_BUSY, "not allowed in a callback of the same mirror");
    }

private:
    std::mutex lock_;
    std::atomic<std::thread::id> holder_{};
};

int error_code_for(int error);
[[noreturn]] void lost(const remote_copy &c, int error);

// Set of a writer, and its promise, which all its requests contain.
struct writer_identity {
    replica::set_uuid set{};
    replica::mirror_promise promise;

    replica::request make_promise_request(const remote_copy &c) const;
    replica::request make_prepare_request(const remote_copy &c) const;
};

// Membership of a set that is open for writing: its record, its writer, and the targets that a flush waits for. It is
// also the lock of these and of the array of copies; lock order: before the locks of lanes. The functions throw
// failure, and require the lock unless stated otherwise. The steps have the same names as in tests/model/mirror.pml.
class membership : public membership_lock
{
public:
    using deadline = replica::deadline;

    membership(const settings &configured, events &published, arbiter &decider, local_copy &local,
            remote_copies &copies, counters &counted, wakeup &changed);

    const replica::mirror_record &record() const { return record_; }
    bool is_synced(unsigned copy) const { return (record_.in_sync >> copy & 1) != 0; }
    std::uint16_t synced_targets() const { return static_cast<std::uint16_t>(record_.in_sync & ~local_bit()); }

    // Without the lock: the opening sets it before other threads run.
    writer_identity writer;
    // Without the lock.
    std::uint32_t local_bit() const { return 1U << settings_.local_number; }

    // Without the lock: roles, and error code of a permanent failure or 0.
    roles now() const { return roles_; }
    int terminal_error() const { return terminal_error_; }
    const char *terminal_reason() const { return terminal_reason_.c_str(); }
    // Without the lock: returns 0 if flushes may be acknowledged, otherwise an error code.
    int check_usable() const noexcept;
    void set_roles(std::uint32_t awaited, std::uint32_t syncing);

    // Throws failure unless the arbiter stores records. Changes nothing: the arbiter gets its current record again.
    void check_arbiter() const;
    void commit_record(const replica::mirror_record &wanted, std::uint16_t before, std::uint16_t needed = 0,
            std::uint32_t exempt = 0);
    void evict(std::uint32_t copies, const std::array<int, replica::max_copies> &errors);
    // Marks the ranges as dirty on the copies. The caller must not hold the lock. Returns 0 or an error code.
    int evict(const failed_copies &failed, const posted_ranges &unconfirmed = {}) noexcept;
    // Evicts slow copies, if another target responds. The caller must not hold the lock. Returns 0 or an error code.
    int evict_slow(std::uint32_t copies) noexcept;
    // Like evict(), with the lock held.
    int evict_or_fail(const failed_copies &failed) noexcept;
    void fail_with(int code, const char *reason, unsigned copy);
    void end(int code, const char *reason, rpma_mirror_event_type type, unsigned copy);
    // The caller must not hold the lock.
    void set_consistency_point(std::uint64_t point);

private:
    template<class F>
    std::uint32_t call_targets(
            std::uint32_t copies, const deadline &until, F request_for, std::array<int, replica::max_copies> &codes);
    void check_change(const group::record_change &change) const;
    std::uint32_t commit_on_targets(const replica::mirror_record &next, const deadline &until);
    void call_eviction_function(std::uint32_t leaving);
    void leave(std::uint32_t copies);

    const settings &settings_;
    events &events_;
    arbiter &arbiter_;
    local_copy &local_;
    remote_copies &copies_;
    counters &counted_;
    wakeup &changed_;

    replica::mirror_record record_;
    std::uint64_t last_version_ = 0; // highest version that was attempted
    std::atomic<roles> roles_{roles{}};
    // Error code of a permanent failure, or 0. The reason is stored before the code, and does not change afterwards.
    std::atomic<int> terminal_error_ = 0;
    replica::short_text<255> terminal_reason_;
};

} // namespace mirror
