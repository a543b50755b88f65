// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/shm_ep.hpp"

#include <sys/types.h>

// A process of the same user that has only an arena, which this process can write.
struct impostor {
    static constexpr std::uint64_t qp_offset = 1 << 23;
    static constexpr std::uint64_t words = qp_offset + softrdma::words_offset(qp_offset);
    static constexpr std::uint64_t cq_offset = (1 << 23) + (1 << 20);
    static constexpr std::uint64_t arena_size = 1 << 24;
    static constexpr std::size_t qp_size = 1 << 17;
    static constexpr std::uint32_t receives = 16;
    static constexpr std::uint32_t stride = 512;

    softrdma::shm_address h;
    int arena = -1;
    std::byte *memory = nullptr;            // mapping of the arena, at the same address in both processes
    softrdma::token_bytes *token = nullptr; // at the same address in both processes
    pid_t pid = 0;
};

impostor make_impostor();
void end_impostor(impostor &i);
// Returns the descriptors that the impostor passes.
softrdma::handover hand_over(const impostor &i);
// Like hand_over(), for a peer that accepts the descriptors.
std::shared_ptr<softrdma::shm_ep> open_channel(
        const impostor &i, const softrdma::shm_address &h, const softrdma::connection_ends &ends, std::string &reason);
// Writes the blocks that a valid process would have for a connection between these endpoints.
void write_blocks(impostor &i, const softrdma::connection_ends &ends);
