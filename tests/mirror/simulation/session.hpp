// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "scenario.hpp"

namespace simulation
{

// A set that a machine is opening, or has open.
struct scenario::session {
    rpma_mirror_cfg *cfg = nullptr;
    rpma_mirror *mirror = nullptr;
    RPMEMpool *pool = nullptr; // in place of the mirror
    char *address = nullptr;
    unsigned machine = 0;
    std::uint64_t epoch = 0;
    std::uint64_t length = 0;
    int code = 0;      // code with which it ended
    bool over = false; // its threads must end
    const history *observer = nullptr;
    bool may_stop = false;
    time_us stopped_at = -1; // time at which it stopped instead of losing a copy, or -1

    // Returns whether an operation that began at that time must fail.
    bool stopped_before(time_us began) const { return stopped_at >= 0 && began > stopped_at; }
};

} // namespace simulation
