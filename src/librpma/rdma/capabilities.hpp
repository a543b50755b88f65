// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "error.hpp"

namespace rpma::rdma
{

// Values of the ABI of kernel and libibverbs that headers before rdma-core 47 or Linux 6.2 do not define.
inline constexpr std::uint64_t device_flush_global = 1ULL << 38;
inline constexpr std::uint64_t device_flush_persistent = 1ULL << 39;
inline constexpr std::uint64_t device_atomic_write = 1ULL << 40;
inline constexpr int access_flush_global = 1 << 8;
inline constexpr int access_flush_persistent = 1 << 9;
inline constexpr std::uint64_t send_op_flush = 1ULL << 11;
inline constexpr std::uint64_t send_op_atomic_write = 1ULL << 12;
// Operations that a queue pair with one of these must also execute natively, so that one batch can contain all of them.
inline constexpr std::uint64_t send_ops_classic = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                                  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                                  IBV_QP_EX_WITH_RDMA_READ;
inline constexpr std::uint8_t placement_flush_global = 1;
inline constexpr std::uint8_t placement_flush_persistent = 2;
inline constexpr std::uint8_t flush_level_range = 0;
inline constexpr std::uint8_t flush_level_mr = 1;

// Maximum message size of a reliable connection, regardless of the value that a device reports.
inline constexpr std::uint32_t rc_max_message = 1U << 31;

struct capabilities {
    bool odp = false;
    bool native_flush = false;
    bool native_atomic_write = false;
    std::uint32_t max_message = rc_max_message; // minimum of the limits of the device's ports, in bytes
};

result<bool> query_odp(ibv_context *context);
result<capabilities> query_capabilities(ibv_context *context);

} // namespace rpma::rdma
