// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <string>
#include <sys/types.h>
#include <vector>

#include "fixture.hpp"

// Machines in network namespaces of their own, whose links meet in a switch that is a process: it forwards IPv4
// packets, and can lose or delay those of a link, in both directions. The test is skipped where that cannot be made.
class network
{
public:
    explicit network(unsigned machines);
    ~network();
    network(const network &) = delete;
    network &operator=(const network &) = delete;

    machine at(unsigned number) const;
    // This process goes there.
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
