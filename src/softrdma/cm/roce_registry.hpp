// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/gid_table.hpp"
#include "base/settings.hpp"
#include "cm/cm_roce.hpp"
#include "cm/mad_exchange.hpp"
#include "progress/path_timer.hpp"
#include "transport/roce/management_port.hpp"

#include <bit>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

// Connections and listeners over RoCE of this process, for the source files of this module.
namespace softrdma::cm
{

// Connection of one id with its peer. It exists until no message of the peer can arrive, longer than the id.
struct roce_link final : mad_exchange::outlet, std::enable_shared_from_this<roce_link> {
    roce_link(std::uint32_t number, const datagram_route &r)
        : route(r), exchange(number, settings().response_timeout, *this)
    {
    }
    void send(const roce::cm_mad &m) override REQUIRES(lock());

    const datagram_route route;
    std::uint64_t id = 0;                  // serial number; 0 once the id is destroyed
    std::shared_ptr<roce_service> service; // passive side, until the connection is established
    deadline_timer timer;
    bool is_ending = false;
    bool has_responded = false; // a message of the peer has arrived
    mad_exchange exchange;
};

// A port on which an id listens, or that a repeated request may still name.
struct roce_service {
    ~roce_service()
    {
        for (const auto &box : boxes)
            box->close();
    }
    bool serves(const network_address &destination) const noexcept
    {
        const bool v4 = is_v4(std::bit_cast<ibv_gid>(destination));
        return address ? *address == destination : v4 ? takes_v4 : takes_v6;
    }

    std::uint64_t number = 0;
    std::optional<network_address> address; // empty: all of these families
    bool takes_v4 = false;
    bool takes_v6 = false;
    std::uint64_t listener = 0; // serial number of the id; 0 once it no longer listens
    std::vector<std::shared_ptr<roce::mailbox>> boxes;
};

namespace over_roce
{

using clock = std::chrono::steady_clock;
using roce::cm_attribute;
using roce::cm_mad;

inline constexpr std::uint32_t lane_shift = 27;

using peer_key = std::pair<network_address, std::uint32_t>; // address and communication ID of a peer

struct host_probe {
    clock::time_point sent;
    unique_fd socket;
    bool is_closed = false;
};

// Never destroyed: the progress thread may run until the end of the process.
struct registry {
    std::shared_ptr<roce::management_port> port GUARDED_BY(lock());
    std::shared_ptr<roce::mailbox> box GUARDED_BY(lock());
    std::unordered_map<std::uint32_t, std::shared_ptr<roce_link>> links GUARDED_BY(lock()); // keys: own IDs
    std::map<peer_key, std::weak_ptr<roce_link>> passive GUARDED_BY(lock());
    std::set<peer_key> unlistened GUARDED_BY(lock()); // requests that wait for a listener
    std::unordered_multimap<std::uint64_t, std::weak_ptr<roce_service>> services GUARDED_BY(
            lock());                                                 // keys: service IDs
    std::map<network_address, host_probe> probes GUARDED_BY(lock()); // keys: hosts
    std::vector<std::uint64_t> waiting GUARDED_BY(lock());           // serial numbers of ids until the port is open
};

registry &state();
registry *state_if_created() noexcept; // NULL if this process has none

local_address name_of_lane(std::uint32_t lane) noexcept;
// Name of the mailbox of a listener, at an address or at all addresses of a family.
local_address name_of_service(std::uint64_t number, const network_address *address, bool v4) noexcept;

std::size_t gid_index_of(const network_address &address) noexcept;
unsigned interface_of(const network_address &address) noexcept;
datagram_route route_to(const roce::udp_flow &flow) noexcept;

void send_message(const datagram_route &route, const cm_mad &m) REQUIRES(lock());
// Creates the connection of an id with an unused communication ID. The ID contains the lane of this process, so that
// other processes can hand on what they receive for it. Returns NULL if no random number is available.
std::shared_ptr<roce_link> new_link(const cm_id &id, const datagram_route &route) REQUIRES(lock());
// Keeps the timer of the connection after each step: one is pending at a time, and an early one is started again. A
// closed connection remains while messages of the peer may be on their way.
void update_timer(roce_link &link) REQUIRES(lock());
// For the end of a connection, which needs no memory: without memory, its last message is not repeated.
void update_timer_or_forget(roce_link &link) noexcept REQUIRES(lock());

// Handles a packet for queue pair 1, from the network or from another process.
void received(const roce::management_packet &p, bool is_handed_on);
// Handles a probe that came back because no process of the peer's host has the port.
void returned(const roce::management_packet &p);
void handle(roce_link &link, mad_exchange::event event, const cm_mad &m) REQUIRES(lock());

} // namespace over_roce

} // namespace softrdma::cm
