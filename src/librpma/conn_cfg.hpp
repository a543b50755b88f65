// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include "abi.hpp"
#include "heap.hpp"

struct rpma_conn_cfg : heap_object {
    std::atomic<int> timeout_ms = RPMA_DEFAULT_TIMEOUT_MS;
    std::atomic<std::uint32_t> cq_size = 10;
    std::atomic<std::uint32_t> rcq_size = 0;
    std::atomic<std::uint32_t> sq_size = 10;
    std::atomic<std::uint32_t> rq_size = 10;
    std::atomic<bool> shared_channel = false;
    std::atomic<rpma_srq *> srq = nullptr;
};

inline constinit const rpma_conn_cfg default_conn_cfg; // defaults, for a NULL configuration
