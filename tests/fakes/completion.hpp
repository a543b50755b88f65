// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "stack.hpp"

namespace fake
{

struct comp_channel : object {
    comp_channel() : object(FAKE_COMP_CHANNEL) {}
    ibv_comp_channel face{};
    fake::bell bell;
    std::deque<ibv_cq *> fired;
};

struct cq : object {
    cq() : object(FAKE_CQ) {}
    ibv_cq face{};
    bool armed = false;
    unsigned unacknowledged = 0;
    std::deque<ibv_wc> completions;
};

void configure_completion(ibv_context_ops &ops);

} // namespace fake
