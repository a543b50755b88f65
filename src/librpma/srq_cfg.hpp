// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include "abi.hpp"
#include "heap.hpp"

struct rpma_srq_cfg : heap_object {
    std::atomic<std::uint32_t> rq_size = 20;
    std::atomic<std::uint32_t> rcq_size = 20;
};

inline constinit const rpma_srq_cfg default_srq_cfg; // defaults, for a NULL configuration
