// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>

// Constants of the kernel and libibverbs ABI that headers before rdma-core 47 lack.
namespace softrdma::native
{

inline constexpr std::uint64_t device_flush_global = 1ULL << 38;
inline constexpr std::uint64_t device_flush_persistent = 1ULL << 39;
inline constexpr std::uint64_t device_atomic_write = 1ULL << 40;

inline constexpr unsigned access_flush_global = 1u << 8;
inline constexpr unsigned access_flush_persistent = 1u << 9;

inline constexpr std::uint64_t send_op_flush = 1ULL << 11;
inline constexpr std::uint64_t send_op_atomic_write = 1ULL << 12;

inline constexpr auto wr_flush = static_cast<ibv_wr_opcode>(14);
inline constexpr auto wr_atomic_write = static_cast<ibv_wr_opcode>(15);
inline constexpr auto wc_flush = static_cast<ibv_wc_opcode>(8);
inline constexpr auto wc_atomic_write = static_cast<ibv_wc_opcode>(9);

inline constexpr std::uint8_t placement_global = 1;
inline constexpr std::uint8_t placement_persistent = 2;
inline constexpr std::uint8_t level_range = 0;
inline constexpr std::uint8_t level_region = 1;

// struct ibv_qp_ex lacked wr_flush before rdma-core 47. Every queue pair has space for it, whatever the headers.
inline constexpr std::size_t wr_flush_offset = offsetof(ibv_qp_ex, wr_atomic_write) + sizeof(void *);
using wr_flush_function = void (*)(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length,
        std::uint8_t placement, std::uint8_t level);

struct qp_block : ibv_qp_ex {
    std::byte newer_members[64]{};
};
static_assert(sizeof(ibv_qp_ex) == wr_flush_offset || sizeof(ibv_qp_ex) == wr_flush_offset + sizeof(wr_flush_function));

inline wr_flush_function &wr_flush_of(qp_block &qp) noexcept
{
    return *reinterpret_cast<wr_flush_function *>(reinterpret_cast<std::byte *>(&qp) + wr_flush_offset);
}

} // namespace softrdma::native
