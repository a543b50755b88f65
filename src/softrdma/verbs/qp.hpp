// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>

#include "base/sleeping_lock.hpp"
#include "transport/transport.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/qp_object.hpp"
#include "verbs/receive_queue.hpp"
#include "wire/shm_address.hpp"

namespace softrdma
{

// Reliable-connection queue pair. Its lock makes verbs calls, the connection manager and the receive path atomic.
class alignas(cache_line) queue_pair final : public qp_object,
                                             public completion_source,
                                             public std::enable_shared_from_this<queue_pair>
{
public:
    // Rounds the limits in `attr` up. `number` 0 requests an unused one. Returns NULL and sets errno on error.
    static std::shared_ptr<queue_pair> create(
            ibv_pd *pd, ibv_qp_init_attr &attr, std::uint32_t number = 0, const ring_start &start = {});

    queue_pair(ibv_pd *pd, const ibv_qp_init_attr &attr, const ring_start &start);

    // Returns 0; the queue pair then neither sends, receives nor completes. Returns EBUSY if the peer is stopped inside
    // an operation: the queue pair is then in the error state, and the caller can retry.
    int destroy();
    // Called when the peer has stored an invalid message. `own`: deferred by receive_queue::report_violation().
    void peer_broke_protocol(reserve::prepared_call &own);
    void completions_lost(ibv_cq *cq) override;

    int modify(const ibv_qp_attr &attr, int mask) override;
    void query(ibv_qp_attr &attr, ibv_qp_init_attr &init) override;
    ibv_qp_attr attributes()
    {
        const lock_guard lock(lock_);
        return ep_.attr;
    }
    int post_send(ibv_send_wr *wr, ibv_send_wr **bad) override;
    int submit_batch(std::uint32_t count) override;
    int post_bind(const ibv_mw_bind &bind, std::uint32_t key);
    int post_receive(ibv_recv_wr *wr, ibv_recv_wr **bad) override;
    void receive_available();
    void on_region_changed(std::uint32_t key)
    {
        const lock_guard lock(lock_);
        receives_.on_region_changed(key);
    }

    void attach(std::shared_ptr<packet_path> path);
    void expect_path(); // polls of the completion queues then serve the network and the handshake
    // Starts a connection with a peer on this host, and sets the members of `h` that the queue pair determines.
    bool describe(const connection_ends &ends, shm_address &h); // false if the queue pair is destroyed
    // Called when the peer has all data that it needs to act on this queue pair; after this call it may do so.
    void expect(std::shared_ptr<shm_peer> peer);
    void suspend(); // holds sends back until select_transport()
    // Executes requests in the memory of the expected peer, or over the path (NULL, with the reason for report()).
    void select_transport(const std::shared_ptr<shm_peer> &peer, no_shm_reason reason);
    bool has_path()
    {
        const lock_guard lock(lock_);
        return ep_.path != nullptr;
    }
    // Fails a peer that is silent for longer than timeout and retry count allow, even if its host still responds.
    void set_response_limit()
    {
        const lock_guard lock(lock_);
        ep_.has_response_limit = true;
    }
    std::string report();
    bool sending()
    {
        const lock_guard lock(lock_);
        return !queue_.empty();
    }
    // Returns whether a thread that waits for completion events has not polled all completions, flushed ones included.
    bool has_unread_completions(const event_waiter &waiter);

    // Called when a path is lost. A path from before a reset is ignored. `path` is NULL if no path was set up in time.
    void path_lost(const packet_path *path);
    // Receiver for the packets of a path, which keeps the queue pair alive.
    std::shared_ptr<packet_receiver> receiver() { return {shared_from_this(), network().receiver()}; }
    std::chrono::microseconds retry_timeout()
    {
        const lock_guard lock(lock_);
        return ep_.retry_timeout();
    }
    void retry();

    std::atomic<std::uint32_t> roce_number{0}; // number in packets of RoCE; 0 unless it uses RoCE

    // For the transport, whose upcalls take the lock, which guards all other members here.
    sleeping_lock &lock() noexcept RETURN_CAPABILITY(lock_) { return lock_; }
    transport &network() noexcept NO_THREAD_SAFETY_ANALYSIS { return *transport_; }
    endpoint &end() noexcept { return ep_; }
    send_queue &sends() noexcept override { return queue_; }
    receive_queue &receives() noexcept { return receives_; }
    // Return whether requests of the peer are executed, and whether requests of the local side may be in flight.
    bool responds() const noexcept REQUIRES(lock_)
    {
        const ibv_qp_state s = ep_.attr.qp_state;
        return !destroyed_ && !peer_excluded_ && (s == IBV_QPS_RTR || s == IBV_QPS_RTS || s == IBV_QPS_SQD);
    }
    bool sends_requests() const noexcept REQUIRES(lock_) { return responds() && ep_.attr.qp_state != IBV_QPS_RTR; }
    bool apply_outcome(outcome o) REQUIRES(lock_); // false if the peer broke the protocol

private:
    int open(std::uint32_t number);
    bool accepts_sends() const noexcept REQUIRES(lock_)
    {
        const ibv_qp_state s = ep_.attr.qp_state;
        return s == IBV_QPS_RTS || s == IBV_QPS_SQD || s == IBV_QPS_ERR;
    }
    // Attempt to execute the requests of one call in the memory of the peer, before they are queued.
    struct attempt {
        bool is_possible;
        post_result result = post_result::done; // otherwise that of the first queued request
    };
    bool may_attempt() const noexcept REQUIRES(lock_);
    post_result try_in_memory(const wqe &w) REQUIRES(lock_);
    void submit_wqe(attempt &direct) REQUIRES(lock_);
    void posted(const attempt &direct) REQUIRES(lock_);
    void set_state(ibv_qp_state to) noexcept REQUIRES(lock_);
    void publish_attributes() noexcept REQUIRES(lock_);
    int reset(const ibv_qp_attr &attr, int mask) EXCLUDES(lock_);
    int exclude_peer() EXCLUDES(lock_);
    void start_connection(std::uint64_t number) noexcept REQUIRES(lock_);
    void flush_receives() noexcept REQUIRES(lock_);
    void continue_flush() REQUIRES(lock_);
    reserve::prepared_call prepare(void (queue_pair::*function)(reserve::prepared_call &));
    void recheck_flush(reserve::prepared_call &own);
    void retry_first(reserve::prepared_call &own);
    void join_network() noexcept REQUIRES(lock_);
    void leave_network() noexcept REQUIRES(lock_);
    void fail(const char *reason) REQUIRES(lock_); // enters the error state and logs the reason, if any
    void notice_drained() REQUIRES(lock_);

    // Members used by every request come first, in few cache lines: with many connections, none is cached.
    alignas(cache_line) sleeping_lock lock_{lock_level::queue_pair};
    bool on_network_ GUARDED_BY(lock_) = false; // counted by the completion queues
    bool destroyed_ GUARDED_BY(lock_) = false;
    bool peer_excluded_ GUARDED_BY(lock_) = false; // the peer is excluded, before a reset or the destruction
    bool drain_event_pending_ GUARDED_BY(lock_) = false;
    std::uint64_t receives_posted_ GUARDED_BY(lock_) = 0;
    receive_queue receives_; // has its own locking rules
    endpoint ep_ GUARDED_BY(lock_);
    send_queue queue_ GUARDED_BY(lock_);
    const std::unique_ptr<transport> transport_ PT_GUARDED_BY(lock_);
    std::uint64_t connection_ GUARDED_BY(lock_) = 0;   // see state_word()
    std::shared_ptr<shm_peer> peer_ GUARDED_BY(lock_); // peer that may act on this queue pair
    // Flush of the receives in the error state. It must not fail, so its memory is allocated with the queue pair.
    bool delays_flush_ GUARDED_BY(lock_) = false;
    grace_period peer_operations_ GUARDED_BY(lock_); // delay the flush
    std::chrono::microseconds flush_pause_ GUARDED_BY(lock_){};
    reserve::prepared_call recheck_call_ GUARDED_BY(lock_); // empty while it is deferred
};

int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad);
int post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad);
std::string report_queue_pairs();
void notify_region_changed(std::uint32_t key); // posted receives in the region then use its new definition

inline queue_pair &qp_of(ibv_qp *qp) noexcept
{
    return static_cast<queue_pair &>(object_of(qp));
}

} // namespace softrdma
