// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/packet_path.hpp"
#include "transport/request_path.hpp"
#include "verbs/cq.hpp"
#include "verbs/mr.hpp"
#include "verbs/tap.hpp"
#include "wire/shm_address.hpp"

#include <array>
#include <memory>
#include <utility>

namespace softrdma
{

// How long hardware with these attributes tries before it takes a silent peer for gone, unless their time-out is zero.
inline std::chrono::microseconds retry_time(const ibv_qp_attr &attr) noexcept
{
    const std::chrono::nanoseconds once(4096ll << attr.timeout);
    return std::chrono::ceil<std::chrono::microseconds>(once * (attr.retry_cnt + 1));
}

// What the sending and the answering half of a queue pair share. Guarded by the queue pair's lock.
struct alignas(local::line) endpoint {
    // What every request looks at is in the first line.
    ibv_qp *qp = nullptr;
    std::unique_ptr<request_path> local; // beside the network, where there is one
    ibv_qp_cap cap{};
    bool path_lost = false;         // the peer is gone, or will answer nothing more
    bool transport_pending = false; // whether there will be a `local`: nothing is sent yet
    bool unsent = false;            // something that was transmitted waits for more
    bool limits_answers = false;    // the program has set a time after which a silent peer is given up
    bool managed = true;            // by the connection manager, which tells the program when its peer is gone
    local::obstacle obstacle{};     // why there is no `local`, if that is known
    ibv_qp_attr attr{};
    std::shared_ptr<packet_path> path;
    std::weak_ptr<stalled_sender> self; // the queue pair

    // How long a peer may be silent that owes an answer, if answers are limited; zero: for ever.
    std::chrono::microseconds answer_limit() const noexcept;
    // How long hardware would try before it takes a silent peer for gone; at most a second.
    std::chrono::microseconds retry_timeout() const noexcept;
    void transmit(packet header, std::span<const iovec> payload = {}, bool more = false)
    {
        if (path == nullptr)
            return;
        header.dest_qpn = attr.dest_qp_num;
        if (tap *t = tap::current(); t != nullptr) [[unlikely]]
            t->sent(*path, header, payload);
        path->transmit(header, payload, more);
        unsent = more;
    }
    // For the first request, which waits for what no packet tells. `anew`: it has not waited before.
    void try_again_later(bool anew);
    // How many of the bytes that are left the next segment takes, in whole words if not all.
    std::uint32_t next_segment(std::uint32_t left) const { return left <= short_segment ? left : cut_segment(left); }
    void push()
    {
        if (std::exchange(unsent, false) && path != nullptr)
            path->push();
    }

private:
    std::uint32_t cut_segment(std::uint32_t left) const;

    std::chrono::steady_clock::time_point waits_since_{};
    std::chrono::steady_clock::time_point tried_again_at_{}; // by a timer, or will be
};

// The pieces of a scatter list between two offsets, with their regions held. Collected once.
struct gathered {
    gathered() noexcept {}
    ~gathered() { std::destroy_n(pins.begin(), count); }

    std::size_t count = 0;
    std::array<iovec, limits::max_sge> pieces;
    union {
        std::array<region_pin, limits::max_sge> pins; // `count` of them: requests have few
    };

    std::span<const iovec> span() const noexcept { return {pieces.data(), count}; }
    // False if some element is not covered by a region of `pd` with that access.
    bool collect(
            const ibv_pd *pd, std::span<const ibv_sge> sges, int access, std::uint64_t offset, std::uint64_t bytes);
    // False if some of it has left the file that it is of.
    bool is_there() const noexcept;
};

} // namespace softrdma
