// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "stack.hpp"

namespace fake
{

struct cm_id;

struct queued_event {
    cm_id *target; // the listener for a connection request
    rdma_cm_event_type type;
    std::vector<uint8_t> private_data;
};

struct event_channel : object {
    event_channel() : object(FAKE_EVENT_CHANNEL) {}
    rdma_event_channel face{};
    fake::bell bell;
    std::deque<queued_event> queued;
};

struct cm_id : object {
    cm_id() : object(FAKE_CM_ID) {}
    rdma_cm_id face{};
    bool resolved = false;
    bool routed = false;
    bool listening = false;
    bool incoming = false; // a connection request not answered yet
    unsigned unacknowledged = 0;
};

struct cm_event : object {
    cm_event() : object(FAKE_CM_EVENT) {}
    rdma_cm_event face{};
    std::vector<uint8_t> private_data;
    cm_id *counted = nullptr;
};

cm_id &make_id(call &c, rdma_event_channel *channel);

// Removes and returns the channel's queued events for the identifier.
std::deque<queued_event> take_queued(cm_id &id);

} // namespace fake
