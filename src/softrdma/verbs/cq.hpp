// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/sleeping_lock.hpp"
#include "base/spin_lock.hpp"
#include "transport/shared_memory.hpp"
#include "verbs/objects.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <pthread.h>
#include <set>
#include <vector>

namespace softrdma
{

class completion_channel;

// Messages that a peer of this host has delivered without this process' help.
class inbound_source
{
public:
    virtual ~inbound_source() = default;
    // To be called with the completion queue's lock.
    virtual int drain(ibv_wc *wc, int entries) = 0;
    // Number of messages that drain() has not completed yet; an estimate without the completion queue's lock.
    virtual std::uint32_t waiting() const noexcept = 0;
    // The peer need not announce what it delivers while this is not 0.
    virtual std::atomic<std::uint32_t> &watched() noexcept = 0;
};

// A sender whose next message waits for the receiver.
class stalled_sender
{
public:
    virtual ~stalled_sender() = default;
    virtual void retry() = 0;
};

// Who puts completions into a queue and has to know when they are lost.
class completion_source
{
public:
    virtual ~completion_source() = default;
    // The queue has overflowed. Called without a lock.
    virtual void completions_lost(ibv_cq *cq) = 0;
};

// Of a queue that is polled entry by entry: the entry, and who is at it, unless the program promises to be one thread.
struct extended_poll {
    explicit extended_poll(bool by_one_thread) noexcept : single_threaded(by_one_thread) {}
    // Held from one call of the program to another one, which no compiler sees.
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

// Thread that waits for an event which must not overtake completions.
struct event_taker {
    pthread_t thread{};       // reads its own completions in whatever order it likes; zero: unknown
    bool needs_reader = true; // completions wait only for a thread that has asked for their events before
};

class completion_queue : public ibv_cq_ex
{
public:
    completion_queue(ibv_context *owner, int entries, completion_channel *events, void *cookie);
    ~completion_queue();

    ibv_cq *verbs() noexcept { return ibv_cq_ex_to_cq(this); }
    // If false, the constructor has set errno.
    bool valid() const noexcept { return shared_ != nullptr; }
    const local::block &memory() const noexcept { return *block_; }

    // Room for that many more completions may be needed, or is not needed any more.
    void expect(std::int64_t entries);
    // On overflow the entry is lost, and so are all later ones: the queue and its queue pairs are in error.
    void push(const ibv_wc &wc, bool solicited);
    // Completes requests of a send queue: when the program takes the entry, `places` of the queue are added to `freed`.
    // False if it is lost.
    bool push_sent(std::uint32_t qpn, std::uint64_t wr_id, ibv_wc_opcode opcode, std::uint32_t length,
            ibv_wc_status status, std::atomic<std::uint32_t> &freed, std::uint32_t places);
    // Sources are drained with it.
    spin_lock &lock() noexcept RETURN_CAPABILITY(lock_) { return lock_; }
    // Takes over what peers have delivered there.
    void collect(inbound_source &source);
    // Forgets the completions of a queue pair that is reset.
    void discard(std::uint32_t qpn);
    // The counter goes away.
    void forget(const std::atomic<std::uint32_t> *freed);
    // EINVAL if more entries are waiting than would fit, or 0.
    int resize(int entries);
    bool overflowed();
    // Returns whether completions of that queue pair wait for a thread that sleeps until an event of this queue.
    // `source` contains what its peer has delivered here, or is NULL.
    bool has_unread(std::uint32_t qpn, inbound_source *source, const event_taker &taker);
    int poll(int entries, ibv_wc *wc);
    void arm(bool solicited_only);
    // Eventfd to which a sender writes when the queue is armed; -1: the queue has no channel.
    int event_descriptor() const noexcept { return signal_.get(); }
    void acknowledge(unsigned events);
    // Waits until every event that was handed out, asynchronous ones too, has been acknowledged.
    void drain_events();

    // The next poll finds the messages of that source, and an armed queue reports them.
    void announce(inbound_source &source);
    // Polling looks for messages there. Returns the number under which a peer announces them.
    std::uint32_t attach(inbound_source &source);
    void detach(inbound_source &source);
    // The sender is tried again by the next poll that finds nothing else; without memory it waits for its own timer.
    void add_stalled(std::weak_ptr<stalled_sender> sender) noexcept;

    void add_user(std::weak_ptr<completion_source> user);
    void remove_user(const std::weak_ptr<completion_source> &user);

    std::atomic<int> users{0};
    std::atomic<int> network_users{0};       // queue pairs whose completions come over the network
    std::unique_ptr<extended_poll> extended; // NULL: entries are taken by ibv_poll_cq() only

private:
    struct alignas(local::line) entry {
        void put(const ibv_wc &from) noexcept { memcpy(words.data(), &from, sizeof(from)); }
        void get(ibv_wc &to) const noexcept { memcpy(&to, words.data(), sizeof(to)); }

        // Of the completion, which is soon taken: what was stored a moment ago is loaded fast if it was in one piece.
        std::array<std::uint64_t, sizeof(ibv_wc) / sizeof(std::uint64_t)> words;
        std::atomic<std::uint32_t> *freed; // places of a send queue; NULL: the entry is not that of one
        std::uint32_t places;              // to be added to it
    };

    static void give_back_places(const entry &e) noexcept;
    entry *append(std::uint32_t qpn, std::atomic<std::uint32_t> *freed, std::uint32_t places) REQUIRES(lock_);
    bool make_room(std::uint32_t qpn) REQUIRES(lock_);
    std::uint32_t count_entries() const noexcept REQUIRES(lock_);
    bool count_one_more() noexcept REQUIRES(lock_);
    void decide_when_to_ask() noexcept REQUIRES(lock_);
    void wake(bool urgent) EXCLUDES(lock_);
    void overflow() REQUIRES(lock_);
    void count_if_needed() REQUIRES(lock_);

    friend class completion_channel;

    local::cq_block &shared() const noexcept { return *shared_; }
    int take(int entries, ibv_wc *wc);
    int look_further(int entries, ibv_wc *wc);
    int take_inbound(int entries, ibv_wc *wc) REQUIRES(lock_);
    int take_announced(int entries, ibv_wc *wc) REQUIRES(lock_);
    void watch(inbound_source &source) REQUIRES(lock_);
    void announce_to_self(const inbound_source &source) REQUIRES(lock_);
    bool retry_stalled();

    // What every completion touches.
    alignas(local::line) spin_lock lock_{lock_level::completion_queue};
    bool overflowed_ GUARDED_BY(lock_) = false;
    bool counted_ GUARDED_BY(lock_) = false; // as shared with peers
    std::atomic<bool> ever_armed_{false};    // else nobody waits for an event
    std::atomic<bool> any_stalled_{false};
    std::atomic<unsigned> empty_polls_{0};
    std::uint32_t mask_ GUARDED_BY(lock_); // of positions; the ring has a power of two of entries
    // Entries for which there is room, whoever asks; for more make_room() does.
    std::uint32_t unasked_ GUARDED_BY(lock_) = 0;
    std::uint32_t head_ GUARDED_BY(lock_) = 0;
    std::uint32_t tail_ GUARDED_BY(lock_) = 0;
    std::unique_ptr<entry[]> ring_ GUARDED_BY(lock_);
    local::cq_block *shared_ = nullptr;
    local::unique_fd signal_;                                 // eventfd in the channel's set
    std::vector<inbound_source *> watched_ GUARDED_BY(lock_); // asked at each poll

    const std::shared_ptr<local::block> block_;
    std::vector<inbound_source *> sources_ GUARDED_BY(lock_); // by number; NULL: the number is free
    std::size_t next_to_unwatch_ GUARDED_BY(lock_) = 0;
    std::int64_t expected_ GUARDED_BY(lock_) = 0;
    std::vector<std::weak_ptr<stalled_sender>> stalled_ GUARDED_BY(lock_);
    std::set<std::weak_ptr<completion_source>, std::owner_less<>> users_ GUARDED_BY(lock_);
};

inline completion_queue &cq_of(ibv_cq *cq) noexcept
{
    return static_cast<completion_queue &>(reinterpret_cast<ibv_cq_ex &>(*cq));
}

} // namespace softrdma
