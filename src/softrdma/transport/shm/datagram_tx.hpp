// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/sleeping_lock.hpp"
#include "transport/datagram_path.hpp"

#include <memory>
#include <unordered_map>

namespace softrdma::net
{

// What the queue pairs of one port send to processes of this host without the network: into a ring for each port that
// they send to. A process is offered its ring with the first datagram for it, and has taken it with its answer. Until
// then, and for good where it takes none (another user, another network namespace, memory that is not to be shared),
// datagrams go another way.
class datagram_tx
{
public:
    explicit datagram_tx(std::uint16_t port) noexcept : port_(port) {}
    ~datagram_tx();

    enum class outcome {
        elsewhere, // it is not for a process that has a ring
        done,      // also if it is lost, because the ring is full
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

} // namespace softrdma::net
