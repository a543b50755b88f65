// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

// The processes that carry connections: both take requests over a control channel.
namespace bench
{

struct server_settings {
    std::string host = "127.0.0.1";
    std::string port = "7205";        // of the control channel, 0 for any
    std::string rdma_port;            // empty: one that is free
    std::string target_path;          // of file or PMem targets; empty: DRAM only
    std::optional<bool> direct_write; // empty: on softrdma only, which makes it true
    bool once = false;                // end after one client
    double idle_limit_s = 0;          // end when no client comes for so long; 0: never
    int ready_fd = -1;                // where to write the port and a line feed, instead of telling people
};

// Throws failure.
void serve(const server_settings &settings);

struct client_settings {
    int control_fd;
    std::string server_host; // of the RDMA device
    std::string target_path; // for memcpy and librpmem
};

void serve_client(const client_settings &settings);

} // namespace bench
