// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

// Server and client process of a measurement. Both receive requests over a control channel.
namespace bench
{

struct server_settings {
    std::string host = "127.0.0.1";
    std::string port = "7205";        // port of the control channel; "0": any free port
    std::string rdma_port;            // empty: a free port
    std::string target_path;          // path of file or PMem targets; empty: DRAM only
    std::optional<bool> direct_write; // empty: only on softrdma, which ensures it
    bool once = false;                // exits after one client
    double idle_limit_s = 0;          // exits without a client for this time; 0 disables the limit
    int ready_fd = -1;                // descriptor for the port and a line feed; -1: prints a message
};

void serve(const server_settings &settings);

struct client_settings {
    int control_fd;
    std::string server_host;
    std::string target_path; // target path for memcpy and librpmem
};

void serve_client(const client_settings &settings);

} // namespace bench
