// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <deque>
#include <string>

#include "world.hpp"

namespace simulation
{

inline constexpr unsigned max_machines = 8;

// The network between machines. A link can be cut in one direction or in both, and can be slow; a machine can be
// without power.
class network
{
public:
    explicit network(world &in);

    // Time after which a connection to a silent peer fails, like TCP_USER_TIMEOUT.
    time_us user_timeout = 3 * second;

    bool passes(unsigned from, unsigned to) const { return !cut_[from][to] && !off_[from] && !off_[to]; }
    void cut(unsigned from, unsigned to, bool how);
    void slow(unsigned from, unsigned to, time_us by) { slower_[from][to] = by; }
    void power(unsigned machine, bool on) { off_[machine] = !on; }
    bool has_power(unsigned machine) const { return !off_[machine]; }
    // Repairs all links.
    void heal();
    time_us delay(unsigned from, unsigned to, bool next);

    // A control connection. If its link is cut, it fails after a timeout.
    struct socket;
    std::vector<std::weak_ptr<socket>> sockets;
    // The process of each machine that accepts connections.
    std::array<process *, max_machines> servers{};
    // Makes a control connection standard input and output of another process.
    void hand_over(int fd, process &to);
    // Resets one control connection.
    void reset_one();
    // Resets the connection before this message arrives, except after heal().
    void reset_at_once(socket &s);
    std::uint16_t next_port = 20000;

    world &in;

private:
    std::array<std::array<bool, max_machines>, max_machines> cut_{};
    std::array<std::array<std::uint64_t, max_machines>, max_machines> cuts_{};
    std::array<std::array<time_us, max_machines>, max_machines> slower_{};
    static void reset(const std::shared_ptr<socket> &hit);

    std::array<bool, max_machines> off_{};
    bool calm_ = false;
};

// One direction of a connection: delivers in order with a delay. While the link is cut, it holds the data until the
// sender's timeout.
class direction : public std::enable_shared_from_this<direction>
{
public:
    direction(network &over_, unsigned from, unsigned to, time_us timeout)
        : over(over_), from_(from), to_(to), timeout_(timeout)
    {
    }

    void send(std::function<void()> arrive);
    // Drops the data in flight.
    void drop();
    // Called when the sender's timeout expires.
    std::function<void()> given_up;
    // Returns whether the peer can receive data.
    std::function<bool()> gate;
    network &over;

private:
    struct packet {
        std::function<void()> arrive;
        time_us sent;
    };
    void schedule(time_us delay);
    void step();

    const unsigned from_, to_;
    const time_us timeout_;
    std::deque<packet> queue_;
    bool scheduled_ = false;
};

struct network::socket : descriptor, std::enable_shared_from_this<network::socket> {
    short ready() const override;
    void closed() override { shut(true); }
    void shut(bool notify);
    void touch() const { over->in.touch(*owner); }
    void fail(int its_error)
    {
        error = its_error;
        touch();
    }

    network *over = nullptr;
    process *owner = nullptr;
    std::weak_ptr<socket> other;
    std::shared_ptr<direction> out;
    std::string bytes; // received bytes
    bool connected = false;
    bool ended = false; // closed by the peer
    int error = 0;
    bool gone = false; // closed here
};

std::string address_of(unsigned machine);
// Returns -1 if no machine has the address.
int machine_of(const std::string &address);

// Network of the current world.
extern network *net;

} // namespace simulation
