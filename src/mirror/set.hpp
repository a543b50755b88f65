// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <functional>
#include <mutex>
#include <thread>

#include "arbiter.hpp"
#include "events.hpp"
#include "home.hpp"
#include "remote_copy.hpp"
#include "short_text.hpp"

namespace mirror
{

// Bit masks: the targets that a flush waits for, only sends to, or skips. Changed with the membership lock held, read
// by each flush.
struct alignas(std::uint64_t) roles {
    std::uint16_t awaited = 0; // send, and wait for it
    std::uint16_t syncing = 0; // send only
    std::uint16_t away = 0;    // skip, and mark the segments as dirty
    std::uint16_t unused = 0;  // pads the struct to one atomic 8-byte word
};

// Lane of the program: uses the same lane of each target.
struct program_lane {
    static constexpr std::uint64_t max_tickets = 64;
    using tickets = std::array<std::uint64_t, replica::max_copies>;

    // Held by a flush. Code that replaces connections takes the locks of all lanes. Uncontended otherwise, because one
    // thread at a time uses a lane.
    std::mutex lock;
    std::uint64_t started = 0;
    std::array<tickets, max_tickets> in_flight{};
};

// Copies that failed, with errno values. Used on the data path: does not allocate.
struct failed_copies {
    std::uint32_t bits = 0;
    std::array<int, replica::max_copies> errors{}; // errno

    void add(unsigned copy, int error)
    {
        bits |= 1U << copy;
        errors[copy] = error;
    }
};

struct connected {
    std::unique_ptr<replica::region> region;
    rpma_mirror_level level;
};

template<class F>
void each_copy(std::uint32_t bits, F &&f)
{
    for (; bits != 0; bits &= bits - 1)
        f(static_cast<unsigned>(std::countr_zero(bits)));
}

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

// Returns a random number for a new writer.
std::uint64_t new_writer_id();

} // namespace mirror

// Handle of the C functions: a set that is open for writing. The steps have the same names as in
// tests/model/mirror.pml. Functions throw failure unless they are noexcept.
struct rpma_mirror {
public:
    explicit rpma_mirror(const mirror::settings &of);
    ~rpma_mirror();
    rpma_mirror(const rpma_mirror &) = delete;
    rpma_mirror &operator=(const rpma_mirror &) = delete;

    // creation.cpp and state.cpp: without opening the set
    static void create(const mirror::settings &of);
    static std::uint64_t fence(const mirror::settings &of, bool force);
    static void inspect(const mirror::settings &of, rpma_mirror_state &to);

    // opening.cpp
    void open_set(void *hint, void *mapped, std::uint64_t length, bool force);
    // Resynchronizes the copies in sync if `stored` is set, commits the clean record, and ends.
    void close(bool stored = true);

    // flush.cpp; return 0 or an error code
    int flush(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags) noexcept;
    int flush_start(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags,
            std::uint64_t *ticket) noexcept;
    int flush_wait(unsigned lane, std::uint64_t ticket, int timeout_ms) noexcept;
    int atomic_write(unsigned lane, std::uint64_t offset, std::uint64_t value) noexcept;
    int read(unsigned lane, unsigned copy, void *to, replica::range r) noexcept;
    int check_ranges(unsigned lane, const rpma_mirror_range *ranges, std::size_t n) const noexcept;

    // Returns the weakest level at which a copy was verified.
    rpma_mirror_verify_level flush_and_verify(unsigned lane, const rpma_mirror_range *ranges, std::size_t n,
            unsigned flags, rpma_mirror_error *first_bad);
    void check(unsigned copy, replica::range r, rpma_mirror_error *errors, std::size_t *n);
    void repair_range(replica::range r, unsigned source);
    void verify(unsigned copy, const mirror::limits &within, rpma_mirror_verify_report &report);

    // resync.cpp
    void resync(unsigned copy, const mirror::limits &within);
    void add_target(unsigned copy, const char *place, const char *set_name, const mirror::limits &within);
    void remove_target(unsigned copy);

    // membership.cpp
    void set_consistency_point(std::uint64_t mark);

    // state.cpp
    void state(rpma_mirror_state &to);
    void attributes(unsigned copy, rpma_mirror_attributes &to);
    void statistics(rpma_mirror_statistics &to) const;

    mirror::events &events() { return events_; }
    const mirror::local_copy &own() const { return local_; }
    const rpma_mirror_recovery_report &report() const { return report_; }
    // Returns whether this thread is in a callback of the program.
    bool is_in_callback() const { return membership_.is_held_by_caller(); }

private:
    using record = replica::mirror_record;
    using range = replica::range;
    using deadline = replica::deadline;

    // The caller must hold the membership lock, or an exclusive claim on the copy.
    mirror::remote_copy &target(unsigned copy);
    class exclusive_copy;
    bool is_synced(unsigned copy) const { return (record_.in_sync >> copy & 1) != 0; }
    std::uint32_t local_bit() const { return 1U << settings_.local_number; }
    replica::request make_promise_request(const mirror::remote_copy &c, replica::request_type type) const;

    // creation.cpp
    bool find_partial_creation(replica::mirror_state &own);
    [[noreturn]] void reject_existing_set() const;
    void reject_foreign_copies(const replica::mirror_state &own, bool resuming) const;
    void create_copies(const replica::mirror_state &own, bool resuming);
    void each_of_all(const deadline &until, const std::function<void(mirror::remote_copy &, const deadline &)> &f);
    void create_copy(
            const mirror::remote_copy &c, mirror::channel &control, std::uint64_t length, const deadline &until) const;
    record first_record() const;
    void check_fence(bool force) const;

    // opening.cpp
    void check_local_copy() const;
    enum class scope {
        all,
        needed // targets that the newest record requires
    };
    bool open_local_copy();
    void connect_all(scope whom, const deadline &until);
    std::uint64_t identify_set();
    void create_local_copy(std::uint64_t length);
    void ask_arbiter(bool seize, const deadline &until);
    void acquire_epoch(bool seize, const deadline &until);
    void prepare_all(const deadline &until);
    [[noreturn]] void throw_incomplete(std::uint32_t missing, int code, const char *consequence) const;
    bool local_is_newest() const;
    void choose_source(bool force);
    void check_local_level() const;
    void attach_all(const deadline &until);
    mirror::connected attach(mirror::remote_copy &c, mirror::channel &control, const deadline &until);
    bool is_equal(const record &held) const;
    bool local_is_equal() const;
    bool fetch_from(mirror::remote_copy &source);
    void resync_copies(bool force);
    void commit_first_record(bool force);
    bool has_needed(std::uint32_t asked, std::uint32_t answered) const;
    void each_in_parallel(std::uint32_t copies, scope whom, const deadline &until,
            const std::function<void(mirror::remote_copy &, const deadline &)> &f);
    std::uint32_t answered() const;
    // Targets that responded and found their own copy changed since the newest record.
    std::uint32_t changed() const;

    // compare.cpp
    enum class direction {
        to_target,
        from_target,
        none
    };
    struct comparison;
    void compare(comparison &c, std::uint64_t begin, std::uint64_t end);
    struct batch;
    batch begin_batch(comparison &c, std::uint64_t at, std::uint64_t end);
    mirror::channel::question ask_hashes(comparison &c, range r);
    void compare_hashes(comparison &c, batch &b);
    void send_unchecked(comparison &c, batch &b);
    void post_batch(comparison &c, batch &b, int error);
    void end_batch(comparison &c, const batch &b);
    std::uint64_t diff_batch(comparison &c, batch &b);
    int copy_chunk(comparison &c, batch &b, range chunk);

    // membership.cpp: the caller must hold the membership lock
    void commit_record(record next, std::uint16_t before, std::uint16_t needed = 0, std::uint32_t dropped = 0);
    void call_eviction_function(std::uint32_t leaving);
    void fail_with(int code, const char *reason, unsigned copy);
    template<class F>
    std::uint32_t ask_targets(
            std::uint32_t copies, const deadline &until, F request_for, std::array<int, replica::max_copies> &codes);
    std::uint32_t commit_on_targets(const record &next, const deadline &until);
    void end(int code, const char *reason, rpma_mirror_event_type type, unsigned copy);
    void set_roles(std::uint32_t awaited, std::uint32_t syncing);
    void leave(std::uint32_t copies);
    void evict(std::uint32_t copies, const std::array<int, replica::max_copies> &errors);
    // The caller must not hold the membership lock.
    int evict(const mirror::failed_copies &failed) noexcept;

    // watch.cpp
    void watch();
    void start_watching();
    void stop_watching();
    void poll_targets();

    // flush.cpp
    template<class Send>
    void post(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, const Send &send, const deadline &until,
            mirror::program_lane::tickets &tickets, mirror::failed_copies &failed) noexcept;
    // Returns 0 or an errno value.
    int flush_local_copy(const rpma_mirror_range *ranges, std::size_t n, bool deep) noexcept;
    int on_local_copy_error(int error) noexcept;
    void await(unsigned lane, const mirror::program_lane::tickets &tickets, const deadline &until,
            mirror::failed_copies &failed) noexcept;
    int flush_once(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, bool deep) noexcept;
    int outcome(const mirror::failed_copies &failed, const rpma_mirror_range *ranges, std::size_t n) noexcept;
    int check_usable() const noexcept;
    int check_flushable() const noexcept;

    // verify.cpp
    void overwrite_local_copy(range r, const std::vector<std::byte> &good);

    // resync.cpp
    void connect_again(mirror::remote_copy &c, const deadline &until);
    void run_resync(mirror::remote_copy &c, const mirror::limits &within);
    void compare_dirty(comparison &job, std::uint64_t end);
    void store_cursor(mirror::remote_copy &c);
    void join(mirror::remote_copy &c);
    void revert_join(mirror::remote_copy &c);
    // Calls f with the locks of all lanes held.
    template<class F>
    void without_lanes(F &&f);
    void register_again();

    mirror::settings settings_;
    mirror::events events_;
    std::unique_ptr<mirror::arbiter> arbiter_;
    mirror::local_copy local_;
    std::array<std::unique_ptr<mirror::remote_copy>, replica::max_copies> copies_;
    std::vector<mirror::program_lane> lanes_;

    // Membership record and the state of the copies. Lock order: membership_ before the locks of lanes.
    mirror::membership_lock membership_;
    record record_;
    std::uint64_t last_version_ = 0; // highest version that was attempted
    replica::mirror_promise promise_;
    replica::set_uuid set_{};
    // State of opening: the newest record, the record of the arbiter, the required targets, and the source.
    record newest_, arbiters_;
    std::uint32_t needed_ = 0;
    bool overrides_ = false; // true if force overrides a reason to reject the opening
    unsigned source_ = 0;
    std::atomic<mirror::roles> roles_{mirror::roles{}};
    // Error code of a permanent failure, or 0. The reason is stored before the code, and does not change afterwards.
    std::atomic<int> terminal_error_ = 0;
    replica::short_text<255> terminal_reason_;
    // Errno value if a device could not register the local copy again after a page was replaced, otherwise 0.
    std::atomic<int> reregister_error_ = 0;

    rpma_mirror_recovery_report report_{};
    struct {
        std::atomic<std::uint64_t> flushes = 0, ranges = 0, bytes = 0, evictions = 0, resyncs = 0, compared = 0,
                                   sent = 0, repaired = 0;
    } counted_;

    std::jthread watcher_;
    replica::fd_owner stop_;
};
