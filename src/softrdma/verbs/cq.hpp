// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/sleeping_lock.hpp"
#include "base/spin_lock.hpp"
#include "transport/shared_memory.hpp"
#include "verbs/inbound_sources.hpp"
#include "verbs/objects.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <infiniband/verbs.h>
#include <memory>
#include <new>
#include <pthread.h>
#include <set>
#include <utility>
#include <vector>

namespace softrdma
{

class completion_channel;
class queue_pair;

// Producer of completions. Called without a lock when the completion queue has overflowed.
class completion_source
{
public:
    virtual ~completion_source() = default;
    virtual void completions_lost(ibv_cq *cq) = 0;
};

// Thread that waits for an event of the connection manager. It must have read earlier completions before the event.
struct event_waiter {
    pthread_t thread{};       // its own completions may be read in any order; zero: unknown
    bool needs_reader = true; // completions wait only for a thread that has requested their events before
};

inline ibv_wc flushed_receive(std::uint32_t qpn, std::uint64_t wr_id) noexcept
{
    ibv_wc wc{};
    wc.wr_id = wr_id;
    wc.status = IBV_WC_WR_FLUSH_ERR;
    wc.opcode = IBV_WC_RECV;
    wc.qp_num = qpn;
    return wc;
}

// Completion of a request of a send queue, and of the requests before it that were not reported.
struct send_completion {
    std::uint64_t wr_id;
    ibv_wc_status status;
    std::uint32_t length;
    ibv_wc_opcode opcode;
    std::uint32_t qpn;
    std::atomic<std::uint32_t> *freed; // counter of free entries of the send queue
    std::uint32_t sq_entries;          // number to add to it when the program polls the completion
};

// Producers of a completion queue. The deferred call that notifies them may outlive the queue.
class completion_sources
{
public:
    void add(std::weak_ptr<completion_source> source)
    {
        const lock_guard lock(lock_);
        all_.insert(std::move(source));
    }
    void remove(const std::weak_ptr<completion_source> &source)
    {
        const lock_guard lock(lock_);
        all_.erase(source);
    }
    void notify(ibv_cq *cq);

private:
    ordered_mutex lock_{lock_level::completion_queue};
    std::set<std::weak_ptr<completion_source>, std::owner_less<>> all_ GUARDED_BY(lock_);
};

// State of an extended CQ between ibv_start_poll() and ibv_end_poll(): the current entry and the lock of its thread.
struct extended_poll {
    explicit extended_poll(bool by_one_thread) noexcept : single_threaded(by_one_thread) {}
    // Held between calls of the program, which the compiler's analysis cannot follow.
    void lock() noexcept NO_THREAD_SAFETY_ANALYSIS
    {
        if (!single_threaded)
            mutex.lock();
    }
    void unlock() noexcept NO_THREAD_SAFETY_ANALYSIS
    {
        if (!single_threaded)
            mutex.unlock();
    }

    const bool single_threaded;
    sleeping_lock mutex{lock_level::program};
    ibv_wc wc{};
};

// Queue pairs whose next message waits for the receiver. A poll that finds no completion retries them.
class stalled_senders
{
public:
    // Returns false if no memory is left for the list: the sender needs its own timer.
    bool add(std::weak_ptr<queue_pair> sender) noexcept
    {
        const lock_guard lock(lock_);
        try {
            senders_.push_back(std::move(sender));
        } catch (const std::bad_alloc &) {
            return false;
        }
        any_.store(true, std::memory_order_relaxed);
        return true;
    }
    bool retry() { return any_.load(std::memory_order_relaxed) && retry_all(); }

private:
    bool retry_all();

    std::atomic<bool> any_{false};
    spin_lock lock_{lock_level::completion_queue};
    std::vector<std::weak_ptr<queue_pair>> senders_ GUARDED_BY(lock_);
};

class completion_queue : public ibv_cq_ex
{
public:
    completion_queue(ibv_context *owner, int entries, completion_channel *events, void *cookie);
    ~completion_queue();

    ibv_cq *verbs() noexcept { return ibv_cq_ex_to_cq(this); }
    bool valid() const noexcept { return shared_ != nullptr; } // if false, the constructor has set errno
    const block &memory() const noexcept { return *block_; }

    void expect(std::int64_t entries);
    // On overflow, this and all later entries are lost: the queue and its queue pairs enter the error state.
    void push(const ibv_wc &wc, bool solicited);
    bool push(const send_completion &c);
    spin_lock &lock() noexcept RETURN_CAPABILITY(lock_) { return lock_; }
    void collect(inbound_source &source); // appends the completions of delivered messages
    void discard(std::uint32_t qpn);      // called when a queue pair is reset or destroyed
    int resize(int entries);              // returns 0, or EINVAL if more entries are queued than would fit
    bool overflowed()
    {
        const lock_guard lock(lock_);
        return overflowed_;
    }
    // Returns whether completions of that queue pair, or messages in `source`, wait for a thread that sleeps.
    bool has_unread(std::uint32_t qpn, inbound_source *source, const event_waiter &waiter);
    int poll(int entries, ibv_wc *wc);
    void arm(bool solicited_only);
    // Eventfd to which a sender writes when the queue is armed; -1 if the queue has no channel.
    int event_descriptor() const noexcept { return signal_.get(); }
    void drain_events(); // waits until each returned event, also asynchronous ones, is acknowledged

    // The next poll drains the source. If the queue is armed, its event is signaled.
    void announce(inbound_source &source);
    // Adds a source that polls drain. Returns the index with which a peer announces deliveries.
    std::uint32_t attach(inbound_source &source)
    {
        const lock_guard lock(lock_);
        return inbound_.add(source);
    }
    void detach(inbound_source &source)
    {
        const lock_guard lock(lock_);
        inbound_.remove(source);
    }

    completion_sources &sources() noexcept { return *sources_; }

    std::atomic<int> users{0};
    std::atomic<int> network_users{0};       // queue pairs whose completions come over the network
    stalled_senders stalled;                 // retried by a poll that finds no completion
    std::unique_ptr<extended_poll> extended; // NULL if entries are taken with ibv_poll_cq() only

private:
    struct alignas(cache_line) entry {
        void put(const ibv_wc &from) noexcept { memcpy(words.data(), &from, sizeof(from)); }
        void get(ibv_wc &to) const noexcept { memcpy(&to, words.data(), sizeof(to)); }

        // The ibv_wc as whole words, so that the next poll can use store forwarding.
        std::array<std::uint64_t, sizeof(ibv_wc) / sizeof(std::uint64_t)> words;
        std::atomic<std::uint32_t> *freed; // counter of free send queue entries; NULL for other completions
        std::uint32_t sq_entries;          // number to add to it
    };

    static void release_sq_entries(const entry &e) noexcept;
    bool append(const ibv_wc &wc) REQUIRES(lock_);
    entry *append(std::uint32_t qpn, std::atomic<std::uint32_t> *freed, std::uint32_t sq_entries) REQUIRES(lock_);
    bool reserve_entry(std::uint32_t qpn) REQUIRES(lock_);
    // Includes messages that are not entries yet.
    std::uint32_t count_entries() const noexcept REQUIRES(lock_) { return tail_ - head_ + inbound_.waiting(); }
    bool count_one_more() noexcept REQUIRES(lock_);
    void update_fast_limit() noexcept REQUIRES(lock_)
    {
        fast_limit_ = overflowed_ || counted_ ? 0 : static_cast<std::uint32_t>(cqe);
    }
    void wake(bool urgent) EXCLUDES(lock_);
    void overflow() REQUIRES(lock_);
    void count_if_needed() REQUIRES(lock_);

    friend class completion_channel;

    cq_block &shared() const noexcept { return *shared_; }
    int take(int entries, ibv_wc *wc);
    int poll_slow(int entries, ibv_wc *wc);

    alignas(cache_line) spin_lock lock_{lock_level::completion_queue};
    bool overflowed_ GUARDED_BY(lock_) = false;
    bool counted_ GUARDED_BY(lock_) = false; // copy of the word shared with peers
    std::atomic<bool> ever_armed_{false};    // if false, no thread waits for an event
    std::atomic<unsigned> empty_polls_{0};
    std::uint32_t mask_ GUARDED_BY(lock_);           // mask of positions; the ring has a power of two of entries
    std::uint32_t fast_limit_ GUARDED_BY(lock_) = 0; // append() checks nothing below this number
    std::uint32_t head_ GUARDED_BY(lock_) = 0;
    std::uint32_t tail_ GUARDED_BY(lock_) = 0;
    std::unique_ptr<entry[]> ring_ GUARDED_BY(lock_); // untouched entries use no memory
    cq_block *shared_ = nullptr;
    unique_fd signal_; // eventfd in the epoll set of the channel
    inbound_sources inbound_ GUARDED_BY(lock_);

    const std::shared_ptr<block> block_;
    std::int64_t expected_ GUARDED_BY(lock_) = 0;
    const std::shared_ptr<completion_sources> sources_ = std::make_shared<completion_sources>();
    reserve::prepared_call overflow_call_ GUARDED_BY(lock_); // allocated with the queue, because it must be reported
    object_events events_{verbs()};
};

inline completion_queue &cq_of(ibv_cq *cq) noexcept
{
    return static_cast<completion_queue &>(reinterpret_cast<ibv_cq_ex &>(*cq));
}

int poll_cq(ibv_cq *cq, int entries, ibv_wc *wc);
int req_notify_cq(ibv_cq *cq, int solicited_only);

} // namespace softrdma
