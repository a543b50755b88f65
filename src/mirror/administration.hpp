// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/fd_owner.hpp"
#include "wakeup.hpp"

struct rpma_mirror;

namespace mirror
{

// Local socket beside the state file, on which the open set serves rpma-mirror(1). One thread handles all connections
// and never waits for a client. Each request runs in a thread of its own, which does not access the connection.
class administration
{
public:
    explicit administration(rpma_mirror &of);
    ~administration();
    administration(const administration &) = delete;
    administration &operator=(const administration &) = delete;

    // Replaces the socket of a writer that was killed.
    void start();
    // Removes the socket, cancels the requests and waits for them.
    void stop();

private:
    struct client;

    void create_socket(const std::string &path);
    void serve();
    void accept_clients();
    bool advance(client &c, short happened);
    bool receive_request(client &c);
    bool send_lines(client &c);
    static void send_result(client &c);
    void run(client &c, const std::string &request);

    rpma_mirror &set_;
    wakeup changed_; // a request was completed, or the thread must stop
    std::atomic<bool> stopping_ = false;
    std::atomic<bool> changes_members_ = false; // a client adds or removes a target
    replica::fd_owner directory_, listener_;
    std::string name_; // name of the socket in the directory
    std::int64_t accept_at_ms_ = 0;
    std::vector<std::unique_ptr<client>> clients_;
    std::jthread thread_;
};

} // namespace mirror
