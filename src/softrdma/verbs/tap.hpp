// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/datagram_path.hpp"
#include "wire/packet.hpp"

#include <atomic>
#include <span>
#include <sys/uio.h>

namespace softrdma
{

class packet_path;

// Who wants to see every packet and datagram of this process' queue pairs. What is executed in a peer's memory is shown
// as the packets it stands for.
class tap
{
public:
    virtual ~tap() = default;
    virtual void sent(packet_path &path, const packet &header, std::span<const iovec> payload) = 0;
    virtual void received(packet_path &path, const packet &header) = 0;
    // A request that this side executed, numbered by the tap, and its answer.
    virtual void executed(packet_path &path, const packet &request, std::span<const iovec> payload,
            const packet &answer, std::span<const iovec> answer_payload) = 0;

    // A datagram that is about to leave, or has come for a queue pair, which may have no use for it.
    virtual void sent(const datagram &d, const datagram_route &route, std::span<const iovec> payload) = 0;
    virtual void received(const datagram &d, const network_header &header) = 0;

    // NULL, where nobody watches: one predictable branch.
    static tap *current() noexcept { return installed_.load(std::memory_order_acquire); }
    static void install(tap *t) noexcept { installed_.store(t, std::memory_order_release); }

private:
    static inline std::atomic<tap *> installed_{nullptr};
};

} // namespace softrdma
