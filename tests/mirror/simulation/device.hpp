// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <librpma.h>

#include <deque>
#include <map>
#include <poll.h>
#include <string>

#include "network.hpp"

// A simulated RDMA device, with the functions of librpma. The simulated world provides network, machines and memory.
namespace simulation
{

struct queue_pair;

// Completions, and a descriptor that becomes readable once for each requested notification.
struct completion_queue : descriptor {
    short ready() const override { return events != 0 ? POLLIN : 0; }
    void push(const ibv_wc &wc);

    process *owner = nullptr;
    std::deque<ibv_wc> completions;
    bool armed = true;
    unsigned events = 0;
};

struct connection_events : descriptor {
    short ready() const override { return events.empty() ? 0 : POLLIN; }

    process *owner = nullptr;
    std::deque<rpma_conn_event> events;
};

struct receive {
    std::byte *to;
    std::size_t size;
    std::uint64_t context;
};

struct queue_pair : std::enable_shared_from_this<queue_pair> {
    enum class state {
        connecting,
        established,
        failed
    };
    struct operation {
        std::uint64_t context;
        bool reported;
        bool done = false;
    };

    process *owner = nullptr;
    std::weak_ptr<queue_pair> other;
    std::shared_ptr<direction> out;
    std::shared_ptr<completion_queue> cq = std::make_shared<completion_queue>();
    std::shared_ptr<connection_events> cm = std::make_shared<connection_events>();
    int cq_fd = -1, cm_fd = -1;
    state now = state::connecting;
    bool gone = false;
    std::uint64_t epoch = 0; // epoch that the writer of the connection sent
    std::deque<std::shared_ptr<operation>> posted;
    std::deque<receive> receives;

    void open(process &in, unsigned peer);
    void deliver_event(rpma_conn_event event);
    void fail(ibv_wc_status status);
    // Completes the posted operations, in order, up to the one that the peer has confirmed.
    void confirm(const std::shared_ptr<operation> &o);
    void disconnect();
    void vanish(bool power);
    // Posts f, which runs at the peer. f returns false if the peer rejects the operation.
    int post(std::uint64_t context, int flags, std::function<bool(queue_pair &at)> f, std::function<void()> back = {});
};

// Memory of a machine that peers can access.
struct memory_region {
    process *owner;
    std::byte *address;
    std::size_t size;
};

class device
{
public:
    explicit device(network &over_);
    ~device();

    network &over;
    // Capabilities of the targets: a software device, or hardware that either confirms durability or needs messages for
    // it.
    bool software = true;
    bool native_writers = false, native_targets = false;
    // Called before each write to memory.
    std::function<void(unsigned machine, std::uint64_t epoch)> before_write;
    std::function<void(unsigned machine)> amid_write; // called after each part of a write has been stored

    // Returns whether the device of a target rejects native operations.
    bool refuses_native() const { return native_writers && !native_targets; }
    // Returns whether the device can flush to persistence. On persistent memory a hardware device needs native flushes.
    bool flushes(bool persistent_memory) const
    {
        return software || (native_writers && native_targets && persistent_memory);
    }

    std::byte *reach(const process &at, std::uint32_t key, std::uint64_t offset, std::uint64_t length);
    void break_one();
    // Returns whether a writer of a lower epoch is connected to the machine.
    bool serves_below(unsigned machine, std::uint64_t epoch) const;

    std::map<std::uint32_t, memory_region> regions;
    std::uint32_t last_key = 0;
    std::map<std::string, rpma_ep *> listeners; // key: address and port
    std::vector<std::weak_ptr<queue_pair>> pairs;
};

extern device *adapter;

} // namespace simulation
