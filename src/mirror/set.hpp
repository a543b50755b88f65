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

// Of targets, as bits, what a flush does with them. Changed under the lock of the membership, read by each flush.
struct alignas(std::uint64_t) roles {
    std::uint16_t awaited = 0; // gets it, and the flush waits for it
    std::uint16_t syncing = 0; // gets it
    std::uint16_t away = 0;    // does not; what it misses is marked
    std::uint16_t unused = 0;  // as large, and placed, as what the processor stores at once
};

// A lane of the program: the same lane of each target.
struct program_lane {
    static constexpr std::uint64_t most_tickets = 64;
    using tickets = std::array<std::uint64_t, replica::max_copies>;

    // Whoever replaces what a flush uses takes this of all lanes. A program uses a lane by one thread at a time, so
    // that it is free.
    std::mutex lock;
    std::uint64_t started = 0;
    std::array<tickets, most_tickets> under_way{};
};

// Which copies, and why. Of the data path: needs no heap.
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

// A lock that knows who holds it: where the thread is in a function of the program that the mirror calls, what needs
// the lock has to refuse, or it would wait for itself.
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
    bool is_held_here() const { return holder_ == std::this_thread::get_id(); }
    void refuse_holder() const
    {
        if (is_held_here())
            throw failure(RPMA_MIRROR_E_BUSY, "the mirror waits for the function of the program that calls it");
    }

private:
    std::mutex lock_;
    std::atomic<std::thread::id> holder_{};
};

int code_of_link(int error);

// The number of a new writer.
std::uint64_t random_writer();

} // namespace mirror

// The handle of the C functions: a set that is open for writing. The names of the steps are those of
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
    // Brings all copies in sync level, unless nothing was stored since the opening, says so in the record, and ends.
    void close(bool stored = true);

    // flush.cpp; these return 0 or a code
    int flush(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags) noexcept;
    int flush_start(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags,
            std::uint64_t *ticket) noexcept;
    int flush_wait(unsigned lane, std::uint64_t ticket, int timeout_ms) noexcept;
    int atomic_write(unsigned lane, std::uint64_t offset, std::uint64_t value) noexcept;
    int read(unsigned lane, unsigned copy, void *to, replica::range r) noexcept;
    int check_ranges(unsigned lane, const rpma_mirror_range *ranges, std::size_t n) const noexcept;

    // verify.cpp
    // Returns the weakest way in which a copy was verified.
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
    void mark_consistent(std::uint64_t mark);

    // state.cpp
    void state(rpma_mirror_state &to);
    void attributes(unsigned copy, rpma_mirror_attributes &to);
    void statistics(rpma_mirror_statistics &to) const;

    mirror::events &told() { return events_; }
    const mirror::home &own() const { return home_; }
    const rpma_mirror_recovery_report &report() const { return report_; }
    // Whether this thread is in a function of the program.
    bool calls_program() const { return membership_.is_held_here(); }

private:
    using record = replica::mirror_record;
    using range = replica::range;
    using deadline = replica::deadline;

    // The lock of the membership is held, or it is a copy that this thread works on.
    mirror::remote_copy &target(unsigned copy);
    class work_on_copy;
    bool is_synced(unsigned copy) const { return (record_.in_sync >> copy & 1) != 0; }
    std::uint32_t home_bit() const { return 1U << settings_.home_copy; }
    replica::request about_promise(const mirror::remote_copy &c, replica::request_type type) const;

    // creation.cpp
    bool find_begun(replica::mirror_state &own);
    [[noreturn]] void refuse_existing() const;
    void refuse_foreign(const replica::mirror_state &own, bool begun) const;
    void create_copies(const replica::mirror_state &own, bool begun);
    void each_of_all(const deadline &until, const std::function<void(mirror::remote_copy &, const deadline &)> &f);
    void create_copy(
            const mirror::remote_copy &c, mirror::channel &control, std::uint64_t length, const deadline &until) const;
    record first_record() const;
    void refuse_fence(bool force) const;

    // opening.cpp
    void check_home_copy() const;
    enum class scope {
        all,
        needed // targets that the newest record requires
    };
    bool open_home();
    void connect_all(scope whom, const deadline &until);
    std::uint64_t learn_set();
    void make_home(std::uint64_t length);
    void ask_arbiter(bool seize, const deadline &until);
    void take_epoch(bool seize, const deadline &until);
    void prepare_all(const deadline &until);
    [[noreturn]] void refuse_without(std::uint32_t missing, int code, const char *consequence) const;
    bool home_is_newest() const;
    void choose_source(bool force);
    void check_home_level() const;
    void attach_all(const deadline &until);
    mirror::connected attach(mirror::remote_copy &c, mirror::channel &control, const deadline &until);
    bool is_equal(const record &held) const;
    bool home_is_equal() const;
    bool fetch_from(mirror::remote_copy &source);
    void make_level(bool force);
    void commit_first(bool force);
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
    void send_unseen(comparison &c, batch &b);
    void post_batch(comparison &c, batch &b, int error);
    void end_batch(comparison &c, const batch &b);
    std::uint64_t look(comparison &c, batch &b);
    int copy_piece(comparison &c, batch &b, range piece);

    // membership.cpp: the lock of the membership is held
    void commit_everywhere(record next, std::uint16_t before, std::uint16_t needed = 0, std::uint32_t dropped = 0);
    void ask_program(std::uint32_t leaving);
    void end_by(int code, const char *reason, unsigned copy);
    template<class F>
    std::uint32_t ask_targets(
            std::uint32_t copies, const deadline &until, F request_for, std::array<int, replica::max_copies> &codes);
    std::uint32_t commit_on_targets(const record &next, const deadline &until);
    void end(int code, const char *reason, rpma_mirror_event_type type, unsigned copy);
    void set_roles(std::uint32_t awaited, std::uint32_t syncing);
    void leave(std::uint32_t copies);
    void evict(std::uint32_t copies, const std::array<int, replica::max_copies> &errors);
    // The lock is not held.
    int evict(const mirror::failed_copies &failed) noexcept;

    // watch.cpp
    void watch();
    void start_watching();
    void stop_watching();
    void look_at_targets();

    // flush.cpp
    template<class Send>
    void post(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, const Send &send, const deadline &until,
            mirror::program_lane::tickets &tickets, mirror::failed_copies &failed) noexcept;
    // 0 or an errno.
    int flush_home(const rpma_mirror_range *ranges, std::size_t n, bool deep) noexcept;
    int home_failed(int error) noexcept;
    void await(unsigned lane, const mirror::program_lane::tickets &tickets, const deadline &until,
            mirror::failed_copies &failed) noexcept;
    int flush_once(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, bool deep) noexcept;
    int outcome(const mirror::failed_copies &failed, const rpma_mirror_range *ranges, std::size_t n) noexcept;
    int over() const noexcept;
    int unready() const noexcept;

    // verify.cpp
    void rewrite_home(range r, const std::vector<std::byte> &good);

    // resync.cpp
    void connect_again(mirror::remote_copy &c, const deadline &until);
    void bring_level(mirror::remote_copy &c, const mirror::limits &within);
    void compare_dirty(comparison &job, std::uint64_t end);
    void tell_cursor(mirror::remote_copy &c);
    void join(mirror::remote_copy &c);
    void take_back(mirror::remote_copy &c);
    // Calls f while no lane of the program is used.
    template<class F>
    void without_lanes(F &&f);
    void register_again();

    mirror::settings settings_;
    mirror::events events_;
    std::unique_ptr<mirror::arbiter> arbiter_;
    mirror::home home_;
    std::array<std::unique_ptr<mirror::remote_copy>, replica::max_copies> copies_;
    std::vector<mirror::program_lane> lanes_;

    // The membership: who belongs to the set, and what is known of it. Its lock comes before that of lanes.
    mirror::membership_lock membership_;
    record record_;
    std::uint64_t last_version_ = 0; // that was ever tried
    replica::mirror_promise promise_;
    replica::set_uuid set_{};
    // While the set is opened: the newest record, that of the arbiter, the targets that have to be part of it, and the
    // source.
    record newest_, arbiters_;
    std::uint32_t needed_ = 0;
    bool overrides_ = false; // true if force overrides a reason to reject the opening
    unsigned source_ = 0;
    std::atomic<mirror::roles> roles_{mirror::roles{}};
    // 0, or the code with which everything ends. The reason is stored before the code, and stays.
    std::atomic<int> over_ = 0;
    replica::short_text<255> over_reason_;
    // 0, or an errno: a page was replaced, and a device could not register the home copy again.
    std::atomic<int> unregistered_ = 0;

    rpma_mirror_recovery_report report_{};
    struct {
        std::atomic<std::uint64_t> flushes = 0, ranges = 0, bytes = 0, evictions = 0, resyncs = 0, compared = 0,
                                   sent = 0, repaired = 0;
    } counted_;

    std::jthread watcher_;
    replica::fd_owner stop_;
};
