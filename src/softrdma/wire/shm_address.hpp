// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>

class byte_reader;
class byte_writer;

namespace softrdma
{

using token_bytes = std::array<std::uint64_t, 2>; // secret that a process stores in its private memory and in its arena

// Distinguishes hosts, namespaces, and processes with a reused process ID.
struct identity {
    std::array<std::uint8_t, 16> boot{};
    std::uint32_t uid = 0;
    std::uint32_t pid = 0;
    std::uint64_t start_time = 0;

    bool operator==(const identity &) const = default;
};

// Reason why two processes share no memory. The process that detects it sends it to its peer.
enum class no_shm_reason : std::uint8_t {
    none,
    unshared, // one process does not share memory
    host,     // different hosts
    user,     // different users
    network,  // they are in different network namespaces
    denied,   // access denied by the system
    count
};

// Location of the shared memory of a process, which it sends to its peer over their connection.
struct shm_address {
    bool present = false;
    no_shm_reason absence_reason = no_shm_reason::none; // if not present
    identity owner;
    token_bytes token{};
    std::uint64_t qp_offset = 0;
    std::uint64_t qp_size = 0;
    std::uint64_t connection = 0;    // see state_word()
    std::uint64_t first_receive = 0; // position of the first message in the receive ring
    std::int32_t completion_fd = -1; // eventfd of the receive CQ, or -1
    std::uint64_t fd_server = 0;     // number of the socket that passes descriptors; 0 if none
};

const char *text_of(no_shm_reason reason) noexcept; // description for operators
const char *name_of(no_shm_reason reason) noexcept;

// Encodes and decodes at the end of a message: an absent address takes one byte if it contains a reason, otherwise
// none. get() returns false for bytes that put() cannot produce.
void put(byte_writer &w, const shm_address &h) noexcept;
bool get(byte_reader &r, shm_address &h) noexcept;

} // namespace softrdma
