// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>

#include "base/sleeping_lock.hpp"
#include "transport/transport.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/qp_object.hpp"
#include "verbs/receive_ring.hpp"
#include "wire/shm_address.hpp"

namespace softrdma
{

// A reliable-connection queue pair. The verbs calls, the connection manager and the path's reader all
// enter here; the lock makes each of them one step.
class alignas(local::line) queue_pair final : public qp_object,
                                              public stalled_sender,
                                              public completion_source,
                                              public std::enable_shared_from_this<queue_pair>
{
public:
    // NULL with errno. The limits in `attr` are rounded up to what was granted. Without a number it gets one that the
    // connection manager alone makes known.
    static std::shared_ptr<queue_pair> create(
            ibv_pd *pd, ibv_qp_init_attr &attr, std::uint32_t number = 0, const local::ring_start &start = {});
    static std::shared_ptr<queue_pair> find(std::uint32_t number);

    queue_pair(ibv_pd *pd, const ibv_qp_init_attr &attr, const local::ring_start &start);

    // 0: afterwards nothing arrives, completes or is sent any more. EBUSY if the peer is inside an operation and does
    // not go on with it: then the queue pair is in the error state, and this can be tried again.
    int destroy();
    // That completion queue, if it is one of this queue pair, has overflowed.
    // It has written into shared memory what no device would have sent.
    void peer_broke_protocol();
    void completions_lost(ibv_cq *cq) override;

    int modify(const ibv_qp_attr &attr, int mask) override;
    void query(ibv_qp_attr &attr, ibv_qp_init_attr &init) override;
    int post_send(ibv_send_wr *wr, ibv_send_wr **bad);
    int post_together(std::uint32_t count) override;
    void open_batch() override;
    // Of a window of type 1, which gets that key.
    int post_bind(const ibv_mw_bind &bind, std::uint32_t key);
    int post_receive(ibv_recv_wr *wr, ibv_recv_wr **bad);
    void receive_available();
    void region_has_changed(std::uint32_t key);

    void attach(std::shared_ptr<packet_path> path);
    // A path will come: polls of its completion queues serve the network from now on, and with it the handshake.
    void expect_path();
    // A new connection begins, and a peer of this host may be told where it finds this queue pair: sets what the queue
    // pair knows of `h`. `ends` are those of the path. False if the queue pair has been destroyed.
    bool describe(const local::connection_ends &ends, local::shm_address &h);
    // The peer has been told everything that it needs to act on this queue pair, and may do so from then on.
    void expect(std::shared_ptr<acting_peer> peer);
    // Nothing is sent until select_transport().
    void suspend();
    // Whether requests are executed in the peer's memory from now on (the peer that was expected) or sent over the path
    // (NULL, and what is known of why, for report()).
    void select_transport(const std::shared_ptr<acting_peer> &peer, local::obstacle why);
    bool has_path();
    // A peer that is silent for longer than time-out and retry count say is given up, though its host still answers.
    void limit_answers();
    // A line of key=value for whoever looks on from outside.
    std::string report();
    // True while something posted has not completed.
    bool sending();
    // Returns whether completions, flushed ones included, wait for a thread that sleeps until an event of their queue.
    bool has_unread_completions(const event_taker &taker);

    // That path is gone. It may be one from before a reset, which means nothing any more; NULL: none has come in time.
    void path_lost(const packet_path *path);
    std::chrono::microseconds retry_timeout();
    void retry() override;

    // For the transport. Its own upcalls take the lock, which guards everything else here.
    sleeping_lock &lock() noexcept RETURN_CAPABILITY(lock_) { return lock_; }
    transport &network() noexcept NO_THREAD_SAFETY_ANALYSIS { return *transport_; } // whose upcalls take the lock
    endpoint &end() noexcept { return ep_; }
    send_queue &sends() noexcept { return queue_; }
    receive_ring &receives() noexcept { return ring_; }
    // Whether the peer's requests are answered, and whether requests of this side may be under way.
    bool answers() const noexcept REQUIRES(lock_);
    bool sends_requests() const noexcept REQUIRES(lock_) { return answers() && ep_.attr.qp_state != IBV_QPS_RTR; }
    // Draws the conclusions; false if the peer broke the protocol.
    bool settle(outcome o) REQUIRES(lock_);

private:
    int open(std::uint32_t number);
    bool accepts_sends() const noexcept REQUIRES(lock_);
    bool post_made(request_path *at_once) REQUIRES(lock_);
    request_path *path_at_once() const noexcept REQUIRES(lock_);
    void posted() REQUIRES(lock_); // what was not executed at once
    void set_state(ibv_qp_state to) noexcept REQUIRES(lock_);
    void publish_attributes() noexcept REQUIRES(lock_);
    int reset(const ibv_qp_attr &attr, int mask) EXCLUDES(lock_);
    int shut_out_peer() EXCLUDES(lock_);
    void start_connection(std::uint64_t number) noexcept REQUIRES(lock_);
    void flush_receives() REQUIRES(lock_);
    void finish_flush() REQUIRES(lock_);
    void flush_receives_later(std::chrono::microseconds pause) REQUIRES(lock_);
    void join_network() noexcept REQUIRES(lock_);
    void leave_network() noexcept REQUIRES(lock_);
    void fail() REQUIRES(lock_);
    void notice_drained() REQUIRES(lock_);

    // What every request touches comes first, in as few lines as can be: of many connections none is in a cache.
    alignas(local::line) sleeping_lock lock_{lock_level::queue_pair};
    bool on_network_ GUARDED_BY(lock_) = false; // counted by the completion queues
    bool destroyed_ GUARDED_BY(lock_) = false;
    bool shut_out_ GUARDED_BY(lock_) = false; // the peer, before a reset or the end
    bool tell_drained_ GUARDED_BY(lock_) = false;
    std::uint64_t receives_posted_ GUARDED_BY(lock_) = 0;
    receive_ring ring_; // has rules of its own
    endpoint ep_ GUARDED_BY(lock_);
    send_queue queue_ GUARDED_BY(lock_);
    const std::unique_ptr<transport> transport_ PT_GUARDED_BY(lock_);
    std::uint64_t connection_ GUARDED_BY(lock_) = 0;      // see local::state_word()
    std::shared_ptr<acting_peer> peer_ GUARDED_BY(lock_); // whoever may act on this queue pair
    std::shared_ptr<local::operations_in_progress> delays_flush_ GUARDED_BY(lock_); // of the receives
};

// Of all queue pairs of the process.
std::string report_queue_pairs();
// Receives that are posted in that region are placed as it is from now on.
void tell_of_changed_region(std::uint32_t key);

inline queue_pair &qp_of(ibv_qp *qp) noexcept
{
    return static_cast<queue_pair &>(object_of(qp));
}

} // namespace softrdma
