// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

#include "abi.hpp"
#include "heap.hpp"

struct rpma_peer_cfg : heap_object {
    std::atomic<bool> direct_write_to_pmem = false;
};
