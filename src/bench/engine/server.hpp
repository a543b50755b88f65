// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "api/sides.hpp"
#include "results.hpp"

namespace bench
{

struct server_sample {
    double cpu_s;
    std::uint64_t target_hash; // of the target's data
};

// The serving end of a point: it listens from the start, accepts in a thread of its own. Everything throws failure.
class server
{
public:
    virtual ~server() = default;
    // Waits until all connections stand; returns the bytes of this process's memory that each takes.
    virtual double wait_for_connections() = 0;
    // Fills the target for a run and begins to answer.
    virtual void begin(std::uint64_t seed) = 0;
    // Stops answering. Throws if an answer failed.
    virtual server_sample end() = 0;
};

struct server_options {
    address at;              // of the RDMA device; a port that is free
    std::string target_path; // empty for anonymous memory
    bool direct_write;       // what to claim of the platform
};

std::unique_ptr<server> open_server(const setup &what, const server_options &options);

} // namespace bench
