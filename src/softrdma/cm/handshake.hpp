// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/unique_fd.hpp"
#include "transport/shm/discovery.hpp"
#include "transport/tcp/tcp_conn.hpp"
#include "verbs/qp.hpp"

namespace softrdma
{

namespace cm
{

ordered_mutex &lock(); // guards all handshakes, ids, their events and channels

} // namespace cm

// One side of a connection: of an id of the connection manager, or of a queue pair that ibv_modify_qp() connects. Three
// messages negotiate where requests are executed. The first two contain the location of their sender's queue pair in
// shared memory. The passive side tries to access the peer first, and sends its own location only if it succeeded. The
// active side then tries, and decides for both. The passive side sends nothing else before that.
class handshake
{
public:
    virtual ~handshake() = default;

    // Events of the path. `carried`: receiver of its packets, or NULL.
    virtual bool received(const packet &p) REQUIRES(cm::lock()) = 0;
    virtual void lost(const std::shared_ptr<packet_receiver> &carried, int error) REQUIRES(cm::lock()) = 0;
    virtual void send_address(const shm_address &local_address) REQUIRES(cm::lock()) = 0; // message 1 or 2
    virtual void searched() REQUIRES(cm::lock()) = 0;

    std::shared_ptr<tcp_conn> path GUARDED_BY(cm::lock());
    std::weak_ptr<queue_pair> local_qp GUARDED_BY(cm::lock());
    bool active GUARDED_BY(cm::lock()) = false;

    // Opens the path of the active side from a bound socket. Returns 0 or an errno value.
    int open_path(unique_fd bound, const sockaddr_storage &peer) REQUIRES(cm::lock());
    // Sends message 1 at once if possible: a peer that has accepted drops silent clients when many connect.
    void begin() REQUIRES(cm::lock());
    void attach_path(std::shared_ptr<tcp_conn> from_peer) REQUIRES(cm::lock()); // path on which message 1 arrived
    bool join() REQUIRES(cm::lock()); // the path then carries its packets; false if the queue pair no longer exists
    void detach_path() REQUIRES(cm::lock()); // ends events of the path
    void end_path() REQUIRES(cm::lock());    // like detach_path(), and closes the path

    shm_address own_address() const REQUIRES(cm::lock());
    // Tries to access the location in the peer's message. Returns true if finished, otherwise searched() follows.
    bool search(const shm_address &peer) REQUIRES(cm::lock());
    bool is_searching() const REQUIRES(cm::lock()) { return searching_; }
    void stop_searching() REQUIRES(cm::lock());
    bool fails() const REQUIRES(cm::lock()) { return ep_ == nullptr && !local_qp.expired() && discovery::required(); }
    void respond() REQUIRES(cm::lock()); // passive side, after the search: sends message 2
    void decide() REQUIRES(cm::lock());  // active side, after join(); message 3 follows
    void send_decision(opcode op) REQUIRES(cm::lock());
    bool take_decision(const packet &p) REQUIRES(cm::lock()); // passive side: handles message 3; false for others

    // Takes ownership of a socket of the listener with that tag. Returns the value of listener::receiver.
    static std::chrono::milliseconds accepted(int socket, std::uint64_t tag);

private:
    void log_tcp_fallback() const REQUIRES(cm::lock());

    discovery::shm_ep_ptr ep_ GUARDED_BY(cm::lock());      // the peer's queue pair, until both sides agree
    no_shm_reason no_shm_reason_ GUARDED_BY(cm::lock()){}; // why ep_ is NULL
    bool searching_ GUARDED_BY(cm::lock()) = false;
};

} // namespace softrdma
