// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <infiniband/verbs.h>
#include <optional>
#include <string>
#include <string_view>

// Fault injection by rules, ACTION[=VALUE][:KEY=VALUE[,KEY=VALUE]...] or seed=N, separated by ';' (softrdma(1)).
namespace softrdma::fault
{

enum class action {
    status, // the request is not executed and completes with a status
    drop,   // it is executed, its response is lost
    delay,
    rnr, // the receiver was not ready
    disconnect,
    late, // its data arrives late; operations that are not fenced overtake it
    duplicate,
    // events of the connection manager, when a request or a reply arrives
    reject,
    unreachable,
    // event of a completion queue
    overflow,
};

struct verdict {
    action kind;
    ibv_wc_status status;
    std::chrono::microseconds delay;
};

extern std::atomic<bool> any_rules;
inline bool active() noexcept
{
    return any_rules.load(std::memory_order_relaxed);
}

std::optional<verdict> on_request(ibv_wr_opcode opcode, std::uint32_t qpn);
std::optional<action> on_handshake(); // returns the fault for a message of the connection manager: rejected or lost
bool on_completion(std::uint32_t qpn);

// Adds rules, all or none. Returns false and stores the reason if a rule is invalid. "off" removes all.
bool add(std::string_view text, std::string &reason);
void configure(); // like add(), for SOFTRDMA_FAULT, once; exits the process if it is invalid

} // namespace softrdma::fault
