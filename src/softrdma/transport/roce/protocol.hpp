// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/guard.hpp"
#include "wire/packet.hpp"

#include <algorithm>
#include <chrono>
#include <sys/uio.h>
#include <utility>
#include <vector>

namespace softrdma::roce
{

using time_point = std::chrono::steady_clock::time_point;

// Attributes of a connection, from the attributes of its queue pair.
struct attributes {
    std::uint32_t dest_qpn = 0;
    std::uint32_t mtu = 1024;
    std::uint32_t send_psn = 0;         // PSN of the first request that the local side sends
    std::uint32_t receive_psn = 0;      // PSN of the first request that it expects
    std::chrono::nanoseconds timeout{}; // time to wait for a response; unlimited if zero
    std::uint8_t retry_cnt = 7;
    std::uint32_t max_rd_atomic = 1;      // READs and atomic operations that the local side starts at the same time
    std::uint32_t max_dest_rd_atomic = 1; // responses that it keeps for repeated requests
};

// Interface of the network below the protocol. It may lose, repeat and reorder packets.
class packet_outlet
{
public:
    virtual ~packet_outlet() = default;
    // Sends one packet of at most one MTU. A request has AckReq unless `no_ack_req` is set. The payload is valid until
    // the current call of the sender or the replier returns.
    virtual void send(const packet &p, std::span<const std::byte> payload) = 0;
};

// Cuts the segments of a message into packets: all have the size of the MTU except the last one.
class packet_cutter
{
public:
    void start() noexcept
    {
        held_.clear();
        cut_ = 0;
        first_ = true;
    }
    // Calls `send(payload, first, last)` for each whole packet. The rest of a segment waits for the next segment. The
    // payload is valid until the next call.
    // Returns false if the file behind the memory of a segment was truncated.
    template<typename Send>
    [[nodiscard]] bool add(std::span<const iovec> segment, bool last, std::uint32_t mtu, const Send &send)
    {
        held_.erase(held_.begin(), held_.begin() + std::exchange(cut_, 0));
        for (const iovec &part : segment) {
            const auto *from = static_cast<const std::byte *>(part.iov_base);
            held_.resize(held_.size() + part.iov_len);
            std::byte *to = held_.data() + held_.size() - part.iov_len;
            if (!guarded([&] { std::copy(from, from + part.iov_len, to); }))
                return false;
        }
        const std::span<const std::byte> all(held_);
        std::size_t at = 0;
        for (; all.size() - at > mtu || (!last && all.size() - at == mtu); at += mtu)
            send(all.subspan(at, mtu), std::exchange(first_, false), false);
        if (last)
            send(all.subspan(at), std::exchange(first_, false), true);
        cut_ = static_cast<std::ptrdiff_t>(last ? all.size() : at);
        return true;
    }

private:
    std::vector<std::byte> held_;
    std::ptrdiff_t cut_ = 0; // bytes of these that were sent
    bool first_ = true;
};

constexpr std::uint32_t packets_of(std::uint32_t bytes, std::uint32_t mtu) noexcept
{
    return bytes == 0 ? 1 : (bytes - 1) / mtu + 1;
}

constexpr std::uint32_t psn_add(std::uint32_t psn, std::uint32_t count) noexcept
{
    return (psn + count) & psn_mask;
}

} // namespace softrdma::roce
