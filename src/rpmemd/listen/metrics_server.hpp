// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <thread>

#include "listen/listener.hpp"

struct MHD_Connection;
struct MHD_Daemon;

namespace rpmemd
{

// Serves one page over HTTP, as /metrics. Its thread serves all clients without blocking. A client has a limited time
// for its request and for the response, and the number of clients is limited.
class metrics_server
{
public:
    // `text` must not block.
    metrics_server(const location &at, std::function<std::string()> text);
    ~metrics_server();
    metrics_server(const metrics_server &) = delete;
    metrics_server &operator=(const metrics_server &) = delete;

    unsigned port() const { return port_; }

private:
    using clock = std::chrono::steady_clock;
    struct client {
        int fd;
        clock::time_point since;
    };
    struct stopper {
        void operator()(MHD_Daemon *daemon) const;
    };
    struct callbacks;

    int respond(MHD_Connection *connection, const char *url, const char *method) const;
    void run();
    void end_late_clients();

    const std::function<std::string()> text_;
    unsigned port_ = 0;
    std::list<client> clients_;
    std::unique_ptr<MHD_Daemon, stopper> daemon_;
    replica::fd_owner stop_;
    std::thread thread_;
};

} // namespace rpmemd
