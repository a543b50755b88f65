// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/unique_fd.hpp"
#include "transport/shm/discovery.hpp"
#include "transport/tcp/tcp_conn.hpp"

namespace softrdma::net
{

namespace cm
{

// Guards all handshakes, ids, their events and channels.
ordered_mutex &lock();

} // namespace cm

// One side of a connection: of an id of the connection manager, or of a queue pair that ibv_modify_qp() connects. Both
// sides agree in three messages on what executes their requests: each of the first two tells where its sender's queue
// pair is in shared memory. The passive side tries to get there first, and tells its own place only if it has; the
// active side then tries, and decides for both. Until it has, the passive side sends nothing else.
class handshake
{
public:
    virtual ~handshake() = default;

    // What is told about the path, until it is lost. `carried` is the queue pair whose packets it carried, or NULL.
    virtual bool received(const packet &p) REQUIRES(cm::lock()) = 0;
    virtual void lost(const std::shared_ptr<queue_pair> &carried, int error) REQUIRES(cm::lock()) = 0;
    // Sends message 1 or, on the passive side, 2.
    virtual void tell_address(const local::shm_address &own) REQUIRES(cm::lock()) = 0;
    // A search that took its time has ended.
    virtual void searched() REQUIRES(cm::lock()) = 0;

    std::shared_ptr<tcp_conn> path GUARDED_BY(cm::lock());
    std::weak_ptr<queue_pair> local_qp GUARDED_BY(cm::lock());
    bool active GUARDED_BY(cm::lock()) = false;

    // The active side's path, from a bound socket. Message 1 follows. 0 or an errno value.
    int open_path(local::unique_fd bound, const sockaddr_storage &peer) REQUIRES(cm::lock());
    // Sends message 1 without a round of the event loop where that is possible: a peer that has accepted the path waits
    // for it, and drops silent callers when many connect.
    void begin() REQUIRES(cm::lock());
    // The passive side's, which has brought message 1.
    void take_path(std::shared_ptr<tcp_conn> from_peer) REQUIRES(cm::lock());
    // It carries the packets of the queue pair from now on. False if there is none any more.
    bool join() REQUIRES(cm::lock());
    void leave_path() REQUIRES(cm::lock()); // nothing of it is told any more
    void end_path() REQUIRES(cm::lock());   // the same, and it is closed

    local::shm_address own_address() const REQUIRES(cm::lock());
    // Tries to get where the peer's message says that its queue pair is. True if that is over, else searched() follows.
    bool search(const local::shm_address &peer) REQUIRES(cm::lock());
    bool is_searching() const REQUIRES(cm::lock()) { return searching_; }
    // The connection goes on without what was searched.
    void stop_searching() REQUIRES(cm::lock());
    // Nothing was found, and without it the connection is of no use.
    bool fails() const REQUIRES(cm::lock()) { return ep_ == nullptr && discovery::required(); }
    // Once the search has ended, on the passive side: sends message 2.
    void answer() REQUIRES(cm::lock());
    // On the active side, whose queue pair has joined, and then message 3.
    void decide() REQUIRES(cm::lock());
    void tell_decision(opcode op) REQUIRES(cm::lock());
    // The passive side has got message 3. False if it was none.
    bool take_decision(const packet &p) REQUIRES(cm::lock());

    // Takes a socket that a listener has accepted, of that tag; returns what listener::receiver does.
    static std::chrono::milliseconds accepted(int socket, std::uint64_t tag);

private:
    void log_fall_back() const REQUIRES(cm::lock());

    discovery::shm_ep_ptr ep_ GUARDED_BY(cm::lock());   // to the peer's queue pair, until both sides have agreed on it
    local::obstacle obstacle_ GUARDED_BY(cm::lock()){}; // why there is none
    bool searching_ GUARDED_BY(cm::lock()) = false;
};

} // namespace softrdma::net
