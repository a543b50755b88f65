// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <string>
#include <sys/types.h>

#include "fixture.hpp"

// Faults of the control connections to a target.
enum class fault {
    none,
    drops,   // it takes no connection, and does not refuse one: as where packets are dropped
    refuses, // no process listens
    mute,    // it continues to accept and to receive, and sends nothing
    slow,    // it sends one byte a second
    cuts,    // it ends the connection
};

// A port that stands for that of a target. Its process forwards the first `answers` answers of each connection, of
// which the greeting is the first; later ones have the fault. Lanes go to the target itself.
class faulty_port
{
public:
    faulty_port(fault kind, unsigned answers, const target &of);
    ~faulty_port();
    faulty_port(const faulty_port &) = delete;
    faulty_port &operator=(const faulty_port &) = delete;

    std::string place() const { return "127.0.0.1:" + std::to_string(port_); }
    // True if an answer had the fault.
    bool has_struck() const { return *struck_; }

private:
    int listener_ = -1;
    std::vector<int> waiting_; // connections that fill the queue of the listener
    unsigned port_ = 0;
    pid_t process_ = -1;
    std::atomic<bool> *const struck_; // shared with the process
};
