// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>

class byte_reader;
class byte_writer;

namespace softrdma::local
{

// A secret that a process keeps in its own memory and in what it shares.
using token_bytes = std::array<std::uint64_t, 2>;

// Tells apart hosts, namespaces and incarnations of process numbers.
struct identity {
    std::array<std::uint8_t, 16> boot{};
    std::uint32_t uid = 0;
    std::uint32_t pid = 0;
    std::uint64_t start_time = 0;

    bool operator==(const identity &) const = default;
};

// What a process tells its peer over their connection, so that the peer can find what it shares.
struct shm_address {
    bool present = false;
    identity who;
    token_bytes token{};
    std::uint64_t qp_offset = 0;
    std::uint64_t qp_size = 0;
    std::uint64_t connection = 0;    // its number, see state_word()
    std::uint32_t first_receive = 0; // position of the first message in the receive ring
    std::int32_t completion_fd = -1; // eventfd of the receive completion queue, if that wants events
    std::uint64_t fd_server = 0;     // number of the socket where descriptors are handed over; 0: nowhere
};

// At the end of a message: an absent one takes no bytes. get() is false for anything that put() cannot have made.
void put(byte_writer &w, const shm_address &h) noexcept;
bool get(byte_reader &r, shm_address &h) noexcept;

} // namespace softrdma::local
