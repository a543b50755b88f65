// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <string>
#include <sys/types.h>
#include <vector>

#include "fixture.hpp"

// Machines in their own network namespaces. A process acts as the switch between their links: it forwards IPv4 packets,
// and can lose or delay the packets of a link, in both directions. The test is skipped where namespaces cannot be
// created.
class network
{
public:
    explicit network(unsigned machines);
    ~network();
    network(const network &) = delete;
    network &operator=(const network &) = delete;

    machine at(unsigned number) const;
    // Moves this process to the namespace.
    void enter(unsigned number) const;
    void cut(unsigned number, bool lost) const { links_[number].cut = lost; }
    void delay(unsigned number, unsigned ms) const { links_[number].delay_ms = ms; }

private:
    struct link {
        std::atomic<bool> cut;
        std::atomic<unsigned> delay_ms;
    };
    struct port {
        int name_space;
        int packets; // descriptor of its tun device
    };

    [[noreturn]] void forward() const;

    std::vector<port> ports_;
    link *links_ = nullptr; // shared with the switch
    pid_t switch_ = -1;
};
