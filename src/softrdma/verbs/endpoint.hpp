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

// Time that an RNIC with these attributes, and a timeout other than 0, retries before it reports a peer as lost.
inline std::chrono::microseconds retry_time(const ibv_qp_attr &attr) noexcept
{
    const std::chrono::nanoseconds once(4096ll << attr.timeout);
    return std::chrono::ceil<std::chrono::microseconds>(once * (attr.retry_cnt + 1));
}

static_assert(limits::max_sge <= packet_path::max_iovecs);

// State shared by the requester and the responder of a queue pair. Guarded by the lock of the queue pair.
struct alignas(cache_line) endpoint {
    // The first cache line contains the members that every request uses.
    ibv_qp *qp = nullptr;
    std::shared_ptr<request_path> local; // path through shared memory, if one exists, besides the network
    ibv_qp_cap cap{};
    bool path_lost = false;                  // the peer has exited, or will send no more responses
    bool transport_pending = false;          // whether `local` will be set is still unknown: no request is sent yet
    bool unsent = false;                     // the path holds transmitted packets back, to send them with later ones
    bool has_response_limit = false;         // the program has set a timeout for a silent peer
    bool managed = true;                     // true if the connection manager reports a lost peer to the program
    softrdma::no_shm_reason no_shm_reason{}; // reason why `local` is NULL, if known
    ibv_qp_attr attr{};
    std::shared_ptr<packet_path> path;
    std::weak_ptr<queue_pair> self;
    reserve::prepared_call retry_call; // allocated with it; empty while it is deferred

    // Limit for the silence of a peer that owes a response; zero: no limit.
    std::chrono::microseconds response_limit() const noexcept;
    // Time that an RNIC would retry before it reports a silent peer as lost; at most a second.
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
    // Schedules a retry of the first request, which no packet triggers. `starts_wait`: it was not waiting before.
    void try_again_later(bool starts_wait) noexcept;
    // Number of the `left` bytes that the next segment carries; whole words unless it carries all of them.
    std::uint32_t next_segment(std::uint32_t left) const { return left <= short_segment ? left : cut_segment(left); }
    void push()
    {
        if (std::exchange(unsent, false) && path != nullptr)
            path->push();
    }

private:
    std::uint32_t cut_segment(std::uint32_t left) const;

    std::chrono::steady_clock::time_point waits_since_{};
};

// The segments of a scatter list between two offsets, with pins on their regions. Collected once per request.
struct gathered {
    gathered() noexcept {}
    ~gathered() { std::destroy_n(pins.begin(), count); }

    std::size_t count = 0;
    std::array<iovec, limits::max_sge> segments;
    union {
        std::array<region_pin, limits::max_sge> pins; // only `count` are constructed, because most requests have few
    };

    std::span<const iovec> span() const noexcept { return {segments.data(), count}; }
    // Returns false if an element is not covered by a region of `pd` with that access.
    bool collect(
            const ibv_pd *pd, std::span<const ibv_sge> sges, int access, std::uint64_t offset, std::uint64_t bytes);
    bool is_there() const noexcept; // false if part lies beyond the end of its mapped file
};

} // namespace softrdma
