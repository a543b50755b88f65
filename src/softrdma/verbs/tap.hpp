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

// Observer of packets and datagrams, which trace/ implements. Requests executed in memory are shown as packets.
class tap
{
public:
    virtual ~tap() = default;
    virtual void sent(packet_path &path, const packet &header, std::span<const iovec> payload) = 0;
    virtual void received(packet_path &path, const packet &header) = 0;
    // A request that the local side executed, with a PSN assigned by the tap, and its response.
    virtual void executed(packet_path &path, const packet &request, std::span<const iovec> payload,
            const packet &response, std::span<const iovec> response_payload) = 0;

    // A datagram before it is sent, or one that arrived for a queue pair, which may drop it.
    virtual void sent(const datagram &d, const datagram_route &route, std::span<const iovec> payload) = 0;
    virtual void received(const datagram &d, const network_header &header) = 0;

    static tap *current() noexcept { return installed_.load(std::memory_order_acquire); }
    static void install(tap *t) noexcept { installed_.store(t, std::memory_order_release); }

private:
    static inline std::atomic<tap *> installed_{nullptr};
};

} // namespace softrdma
