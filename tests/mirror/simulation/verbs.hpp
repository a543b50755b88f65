// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "device.hpp"
#include "stubs.hpp"

// Handles of librpma on the simulated device.
using simulation::completion_queue;
using simulation::process;
using simulation::queue_pair;

struct rpma_peer {
};
struct rpma_peer_cfg {
};
struct rpma_conn_cfg {
};
struct rpma_mr_local {
    std::byte *address;
    std::size_t size;
    std::uint32_t key;
    int usage;
};
struct rpma_mr_remote {
    std::uint32_t key;
    std::uint64_t size;
};
struct rpma_cq {
    std::shared_ptr<completion_queue> of;
    int fd;
};
struct rpma_conn {
    std::shared_ptr<queue_pair> pair;
    rpma_cq cq;
};
struct rpma_conn_req {
    std::shared_ptr<queue_pair> pair;
    std::string place;        // destination; empty for an incoming connection
    std::string private_data; // received private data
    bool taken = false;
};
struct rpma_ep : simulation::descriptor {
    short ready() const override { return requests.empty() ? short{0} : short{1}; } // POLLIN

    process *owner = nullptr;
    int fd = -1;
    std::string place;
    std::deque<std::pair<std::shared_ptr<queue_pair>, std::string>> requests;
};

inline std::uint64_t number_of(const void *context)
{
    return reinterpret_cast<std::uint64_t>(context);
}
