// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "arbiter.hpp"
#include "events.hpp"
#include "lease_renewal.hpp"
#include "local_copy.hpp"
#include "membership.hpp"
#include "remote_copy.hpp"
#include "wakeup.hpp"

namespace mirror
{

// Targets that a lane found to be lost or slow, for the thread that evicts them.
struct lost_targets {
    std::atomic<std::uint32_t> slow = 0; // copies as bits
    wakeup found;
};

// Objects that the operations on a set share. Each operation refers to those that it needs.
struct set_parts {
    explicit set_parts(const settings &of);
    ~set_parts();
    set_parts(const set_parts &) = delete;
    set_parts &operator=(const set_parts &) = delete;

    settings configured;
    events published;
    std::unique_ptr<arbiter> decider;
    local_copy local;
    remote_copies copies;
    counters counted;
    wakeup changed; // raised when the targets that flushes wait for change, or the mirror fails
    lost_targets lost;
    lease_renewal renewal;
    membership members;
    // A flush failed, or a verification found a difference: flushes do not prove that the copies are equal.
    std::atomic<bool> may_differ = false;
    bool growing = false; // protected by the membership lock
};

} // namespace mirror
