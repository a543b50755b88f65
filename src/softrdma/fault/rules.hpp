// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <infiniband/verbs.h>
#include <optional>
#include <string>
#include <string_view>

// Faults that are injected on purpose. A text of rules separated by ';', each
// ACTION[=VALUE][:KEY=VALUE[,KEY=VALUE]...], or seed=N; softrdma(1) describes them.
namespace softrdma::fault
{

enum class action {
    status,     // the request is not carried out and completes with a status
    drop,       // it is carried out, its answer is lost
    delay,      // it waits
    rnr,        // the receiver was not ready
    disconnect, // the connection breaks
    late,       // its data arrives late; what is not fenced overtakes it
    duplicate,  // it arrives twice, if it is a datagram
    // of the connection manager, when a request or a reply to one arrives
    reject,
    unreachable,
    // of a completion queue
    overflow,
};

struct verdict {
    action what;
    ibv_wc_status status;
    std::chrono::microseconds delay;
};

extern std::atomic<bool> any_rules;
// One predictable branch where nothing is to be injected.
inline bool active() noexcept
{
    return any_rules.load(std::memory_order_relaxed);
}

// What happens to a work request of the queue pair.
std::optional<verdict> on_request(ibv_wr_opcode opcode, std::uint32_t qpn);
// Whether a message of the connection manager is rejected or lost.
std::optional<action> on_handshake();
bool on_completion(std::uint32_t qpn);

// Adds rules; says why if a text makes no sense, of which nothing is then taken. "off" removes all.
bool add(std::string_view text, std::string &why);
// The same for SOFTRDMA_FAULT, once. Ends the process if it makes no sense.
void configure();

} // namespace softrdma::fault
