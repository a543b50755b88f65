// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
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

// Why two processes share no memory. A process that found out tells its peer.
enum class obstacle : std::uint8_t {
    none,
    unshared, // one of them shares no memory with anybody
    host,     // they are on different hosts
    user,     // they belong to different users
    network,  // they are in different network namespaces
    refused,  // the system lets one of them not reach the other
    count
};

// What a process tells its peer over their connection, so that the peer can find what it shares.
struct shm_address {
    bool present = false;
    obstacle why_absent = obstacle::none; // if it is not present
    identity who;
    token_bytes token{};
    std::uint64_t qp_offset = 0;
    std::uint64_t qp_size = 0;
    std::uint64_t connection = 0;    // its number, see state_word()
    std::uint64_t first_receive = 0; // position of the first message in the receive ring
    std::int32_t completion_fd = -1; // eventfd of the receive completion queue, if that wants events
    std::uint64_t fd_server = 0;     // number of the socket where descriptors are handed over; 0: nowhere
};

// In words, for whoever runs one of the programs.
const char *text_of(obstacle why) noexcept;
// In one word.
const char *name_of(obstacle why) noexcept;

// At the end of a message: an absent one takes one byte if it says why, else none. get() is false for anything that
// put() cannot have made.
void put(byte_writer &w, const shm_address &h) noexcept;
bool get(byte_reader &r, shm_address &h) noexcept;

} // namespace softrdma::local
