// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/sleeping_lock.hpp"
#include "transport/datagram_path.hpp"

#include <memory>
#include <unordered_map>

namespace softrdma
{

// Sends datagrams of the queue pairs of one port to processes on this host through rings, one for each destination
// port. The first datagram for a process offers it the ring, and its response accepts. Until then, or if it accepts
// none (another user or network namespace, no sharing), datagrams take another path.
class datagram_tx
{
public:
    explicit datagram_tx(std::uint16_t port) noexcept : port_(port) {}
    ~datagram_tx();

    enum class outcome {
        elsewhere, // the destination has no ring
        done,      // sent, or dropped because the ring is full
        fault,     // the payload cannot be read
    };
    outcome send(const datagram &d, const datagram_route &route, std::span<const iovec> payload) noexcept;

private:
    class channel;
    channel *find(std::uint16_t to, const datagram_route &route) REQUIRES(mutex_);
    channel *open(std::uint16_t to) REQUIRES(mutex_);

    const std::uint16_t port_;
    sleeping_lock mutex_{lock_level::regions};
    std::unordered_map<std::uint16_t, std::shared_ptr<channel>> channels_ GUARDED_BY(mutex_);
    channel *recent_ GUARDED_BY(mutex_) = nullptr;
};

} // namespace softrdma
