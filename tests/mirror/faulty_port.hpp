// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <string>
#include <sys/types.h>

#include "fixture.hpp"
#include "shared_object.hpp"

// Faults of the control connection to a target.
enum class fault {
    none,
    drops,   // neither accepts nor rejects connections, as if packets were dropped
    refuses, // no process listens
    mute,    // continues to accept and to receive, but sends nothing
    slow,    // sends one byte per second
    cuts,    // closes the connection
};

// A port in front of a target. Its process forwards the first `answers` responses of each connection, including those
// of TLS and the greeting; the fault affects later ones. Lanes connect to the target directly.
class faulty_port
{
public:
    faulty_port(fault kind, unsigned answers, const target &of);
    ~faulty_port();
    faulty_port(const faulty_port &) = delete;
    faulty_port &operator=(const faulty_port &) = delete;

    std::string place() const { return "127.0.0.1:" + std::to_string(port_); }
    // True if the fault has affected a response.
    bool has_struck() const { return *struck_; }

private:
    int listener_ = -1;
    std::vector<int> waiting_; // connections that fill the listener's queue
    unsigned port_ = 0;
    pid_t process_ = -1;
    const shared_object<std::atomic<bool>> struck_;
};
