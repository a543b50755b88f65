// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "api/sides.hpp"
#include "results.hpp"

namespace bench
{

struct server_sample {
    double cpu_s;
    std::uint64_t target_hash;
};

// Server of a point. Listens after construction and accepts in a separate thread.
class server
{
public:
    virtual ~server() = default;
    // Waits until all connections are established. Returns the memory of this process for each, in bytes.
    virtual double wait_for_connections() = 0;
    virtual void begin(std::uint64_t seed) = 0;
    virtual server_sample end() = 0;
};

struct server_options {
    address at;              // address of the RDMA device; a free port
    std::string target_path; // empty for anonymous memory
    bool direct_write;       // whether to declare direct write to PMem
};

std::unique_ptr<server> open_server(const setup &point_setup, const server_options &options);

} // namespace bench
