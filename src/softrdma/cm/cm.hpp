// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cm/handshake.hpp"
#include "verbs/objects.hpp"
#include "wire/cm_message.hpp"
#include "base/lock.hpp"
#include "base/process.hpp"

#include <list>
#include <optional>
#include <rdma/rdma_cma.h>

namespace softrdma
{

class cm_id;

namespace cm
{

struct roce_link;
struct roce_service;

condition &acknowledged();

} // namespace cm

struct cm_event : rdma_cm_event, reserve::object {
    process::birth birth;
    cm_id *counted_on = nullptr; // id whose destruction waits for the acknowledgment
    bool establishes = false;    // an active connect completes when the program fetches this event
    private_data data;
};

using cm_events = std::list<std::unique_ptr<cm_event>, reserve::allocator<std::unique_ptr<cm_event>>>;

class event_channel : public rdma_event_channel
{
public:
    process::birth birth;

    event_channel() : ready_(std::in_place) { fd = ready_->fd(); }

    std::optional<event_fd> ready_;   // empty once destroyed; programs wait for it without the lock
    std::atomic<pthread_t> reader_{}; // thread inside get_event(); zero: none
    cm_events queue_ GUARDED_BY(cm::lock());
    std::unique_ptr<event_channel> destroyed_next_ GUARDED_BY(cm::lock()); // next younger destroyed channel
};

struct cm_device {
    ibv_context *(*context)(); // device of the connection manager; lives as long as the process
    ibv_pd *(*default_pd)();
};

class listener;

enum class cm_state {
    idle,
    bound,
    address_resolved,
    route_resolved,
    listening,
    connecting, // active: no response yet
    replied,    // active: response received, not yet fetched by the program
    requested,  // passive: the program has not decided yet
    accepted,   // passive: the peer has not confirmed yet
    connected,
    disconnect_sent, // the local side disconnected, the peer has not responded
    disconnect_received,
    closed,
};

inline constexpr std::uint8_t usual_ack_timeout = 18; // 4.096 us * 2^18: about a second

class cm_id : public rdma_cm_id, public handshake
{
public:
    explicit cm_id(const cm_device &d) : rdma_cm_id{}, device(d) {}

    bool received(const packet &p) override REQUIRES(cm::lock());
    void lost(const std::shared_ptr<packet_receiver> &carried, int error) override REQUIRES(cm::lock());
    void send_address(const shm_address &local_address) override REQUIRES(cm::lock());
    void searched() override REQUIRES(cm::lock());

    const process::birth birth;

    event_channel *events() const noexcept { return static_cast<event_channel *>(channel); }

    const cm_device device;
    cm_state state GUARDED_BY(cm::lock()) = cm_state::idle;
    std::uint64_t serial GUARDED_BY(cm::lock()) = 0;
    bool sync = false; // set before the program has the id, or only by the program
    bool v6_only GUARDED_BY(cm::lock()) = false;
    std::optional<std::uint8_t> ack_timeout GUARDED_BY(cm::lock()); // local ACK timeout set by the program
    int rejections GUARDED_BY(cm::lock()) = 0;
    bool any_port GUARDED_BY(cm::lock()) = false;    // the program left the choice of its port to the system
    bool owns_port GUARDED_BY(cm::lock()) = false;   // it was bound; false for ids that a listener creates
    bool shares_port GUARDED_BY(cm::lock()) = false; // RDMA_OPTION_ID_REUSEADDR
    bool lost_port GUARDED_BY(cm::lock()) = false;   // the requested port belongs to another id
    int socket GUARDED_BY(cm::lock()) = -1;          // bound, not yet listening or connecting
    std::shared_ptr<listener> listening GUARDED_BY(cm::lock());
    std::shared_ptr<cm::roce_service> service GUARDED_BY(cm::lock()); // listening over RoCE
    std::shared_ptr<cm::roce_link> link GUARDED_BY(cm::lock());       // connection over RoCE; otherwise NULL
    std::uint8_t traffic_class GUARDED_BY(cm::lock()) = 0;            // RDMA_OPTION_ID_TOS, or that of the request
    ibv_mtu path_mtu GUARDED_BY(cm::lock()) = IBV_MTU_4096;
    std::uint8_t path_ack_timeout GUARDED_BY(cm::lock()) = usual_ack_timeout;
    cm_events spare_event GUARDED_BY(cm::lock());           // allocated with the id, because the end must be reported
    cm_events last_event GUARDED_BY(cm::lock());            // end of the connection, until completions are read
    reserve::prepared_call timewait GUARDED_BY(cm::lock()); // allocated with the id; empty while it is deferred
    unsigned events_reported GUARDED_BY(cm::lock()) = 0;
    unsigned events_completed GUARDED_BY(cm::lock()) = 0;
    cm_handshake local GUARDED_BY(cm::lock());
    bool psn_chosen GUARDED_BY(cm::lock()) = false;
    cm_handshake remote GUARDED_BY(cm::lock());
    // Listeners: maximum and number of requests that the program has not fetched, and those that exceed the maximum.
    unsigned backlog GUARDED_BY(cm::lock()) = 0;
    unsigned unseen GUARDED_BY(cm::lock()) = 0;
    std::deque<std::pair<std::shared_ptr<tcp_conn>, cm_handshake>> waiting GUARDED_BY(cm::lock());
    rdma_conn_param request GUARDED_BY(cm::lock()){}; // parameters of the connect request
    ibv_sa_path_rec path_record GUARDED_BY(cm::lock()){};
    std::optional<ibv_qp_init_attr> endpoint_qp GUARDED_BY(cm::lock()); // listener of rdma_create_ep
};

inline cm_id &id_of(rdma_cm_id *id) noexcept
{
    return *static_cast<cm_id *>(id);
}

inline constexpr cm_rejection no_reason{reject_reason::consumer_defined, {.size = reject_private_size}};

// Operations of the connection manager. Each returns 0, or -1 with errno.
namespace cm
{

cm_id *create_id(event_channel *channel, void *context, rdma_port_space space, const cm_device &device);
int destroy_id(cm_id &id);
int migrate_id(cm_id &id, event_channel *channel);

void destroy_channel(event_channel *channel);
int get_event(event_channel &channel, rdma_cm_event **out);
int acknowledge(cm_event *event);

int bind(cm_id &id, const sockaddr *address);
int resolve_address(cm_id &id, const sockaddr *source, const sockaddr *destination);
int resolve_route(cm_id &id);
int listen(cm_id &id, int backlog);
int connect(cm_id &id, const rdma_conn_param *param);
int accept(cm_id &id, const rdma_conn_param *param);
int reject(cm_id &id, std::uint32_t reason, const void *data, std::uint8_t length);
int establish(cm_id &id);
int notify(cm_id &id, ibv_event_type event);
int disconnect(cm_id &id);
int queue_pair_attributes(cm_id &id, ibv_qp_attr &attr, int &mask);

// Returns true if that queue pair of that host has requested a connection and has no response yet.
bool expects(std::uint32_t peer_number, const ibv_gid &peer) REQUIRES(lock());

// Functions shared by the source files of the manager; the caller must hold the lock.
namespace detail
{
cm_id *find_id(std::uint64_t serial) REQUIRES(lock());
cm_id *new_id(event_channel *channel, void *context, rdma_port_space space, const cm_device &device) REQUIRES(lock());
void discard(cm_id *id) REQUIRES(lock());
void queue_event(cm_id &id, rdma_cm_event_type type, int status, const private_data *data = nullptr) REQUIRES(lock());
// Queues the event that ends a connection, after at most 100 checks of whether another thread has read earlier
// completions, whose memory programs then free. `flushed`: waits only for a thread that has read events before.
void queue_last_event(cm_id &id, rdma_cm_event_type type, int status, bool flushed, const private_data *data = nullptr)
        REQUIRES(lock());
void send_ready(cm_id &id) REQUIRES(lock());
void send_rejection(cm_id &id, const cm_rejection &rejection) REQUIRES(lock());
void send_disconnect_request(cm_id &id) REQUIRES(lock());
void send_disconnect_reply(cm_id &id) REQUIRES(lock());
cm_id *new_child(cm_id &listener, const cm_handshake &request) REQUIRES(lock());
void offer(cm_id &listener, cm_id &child) REQUIRES(lock()); // discards the child if memory is exhausted
bool queue_request(cm_id &listener, cm_id &child) noexcept REQUIRES(lock()); // false if memory is exhausted
// Called when a request was fetched or dropped: admits the next one.
void request_fetched(cm_id &listener) REQUIRES(lock());
void drop_events(cm_id &id) REQUIRES(lock());
void acknowledge_stored(cm_id &id) REQUIRES(lock()); // acknowledges the last event of a synchronous call
void disconnected(cm_id &id, int status) REQUIRES(lock());
reserve::prepared_call prepare_timewait(std::uint64_t serial);
bool received_disconnect(cm_id &id, opcode op) REQUIRES(lock());
// Handles the first message of a connection. Returns false if no listener waits for it.
bool received_request(const std::shared_ptr<tcp_conn> &path, const packet &p) REQUIRES(lock());
int fail(int error) noexcept;
// Resolution of a UD service: prepares a request, sends a queue pair number, handles the response or its absence.
inline bool is_datagram(const cm_id &id) noexcept
{
    return id.ps == RDMA_PS_UDP;
}
int prepare_resolve_request(cm_id &id, const rdma_conn_param *param) REQUIRES(lock());
int send_qpn(cm_id &id, const rdma_conn_param *param) REQUIRES(lock());
void read_peer_qpn(cm_id &id, std::uint32_t qkey = RDMA_UDP_QKEY) REQUIRES(lock());
void not_resolved(cm_id &id, int status) REQUIRES(lock());
ibv_ah_attr address_of_peer(const cm_id &id) REQUIRES(lock());
void queue_established(cm_id &id, const ibv_ah_attr &peer, std::uint32_t qkey) REQUIRES(lock());
int datagram_attributes(ibv_qp_attr &attr, int &mask); // returns 0 or EINVAL
// Chooses the PSN, once. A program may use it to modify its queue pair before it accepts.
bool choose_psn(cm_id &id) REQUIRES(lock());
void rejected(cm_id &id, std::uint32_t reason, const private_data &data) REQUIRES(lock());
void unreachable(cm_id &id, int error) REQUIRES(lock());
void retry_or_reject(cm_id &id) REQUIRES(lock());
int modify_to_connected(cm_id &id) REQUIRES(lock());
void modify_to_error(cm_id &id) REQUIRES(lock());
int adopt_device(cm_id &id) REQUIRES(lock());
socklen_t address_size(const sockaddr *address) noexcept;
bool is_wildcard(const sockaddr *address) noexcept;
// Returns true if another id owns the port of `address`, even without a socket; `shares`: except ids that share ports.
bool is_port_taken(const cm_id &id, sockaddr_storage address, bool shares) REQUIRES(lock());
int open_bound(cm_id &id, const sockaddr *address) REQUIRES(lock());
// Allows other sockets to be bound to the port after this one was used for connections.
void share_port(int socket) noexcept;
void query_addresses(cm_id &id, int socket) REQUIRES(lock());
void fill_gids(cm_id &id) REQUIRES(lock());
// Shifts the port between the one that programs use and the TCP port (SOFTRDMA_PORT_OFFSET).
void to_tcp(sockaddr_storage &address);
void from_tcp(sockaddr_storage &address);
} // namespace detail

} // namespace cm

} // namespace softrdma
