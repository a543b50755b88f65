// SPDX-License-Identifier: BSD-3-Clause
#include "cm.hpp"

#include <algorithm>

// Event channels of the connection manager.
namespace
{

using fake::call;
using fake::cm_event;
using fake::cm_id;
using fake::event_channel;
using fake::minus_one;
using fake::null;
using fake::queued_event;
using fake::the;

void enqueue(cm_id &target, rdma_cm_event_type type, const void *data, uint8_t length)
{
    auto *const channel = static_cast<event_channel *>(the().peek(target.face.channel));
    if (channel == nullptr) {
        the().problem("an event for an identifier without a channel");
        return;
    }
    const auto *const bytes = static_cast<const uint8_t *>(data);
    channel->queued.push_back(
            {&target, type, bytes == nullptr ? std::vector<uint8_t>() : std::vector<uint8_t>(bytes, bytes + length)});
    channel->bell.ring();
}

// Converts the event to the one that the library receives. A connection request has a new identifier and is counted at
// the listener.
cm_event &deliver(call &c, queued_event &&from)
{
    auto created = std::make_unique<cm_event>();
    created->private_data = std::move(from.private_data);
    created->counted = from.target;
    ++from.target->unacknowledged;

    rdma_cm_event &face = created->face;
    face.event = from.type;
    face.id = &from.target->face;
    face.param.conn.private_data = created->private_data.empty() ? nullptr : created->private_data.data();
    face.param.conn.private_data_len = static_cast<uint8_t>(created->private_data.size());
    if (from.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        cm_id &id = fake::make_id(c, from.target->face.channel);
        id.incoming = true;
        id.face.verbs = fake::context();
        face.id = &id.face;
        face.listen_id = &from.target->face;
    }
    cm_event &event = *created;
    the().add(&face, std::move(created));
    return event;
}

} // namespace

namespace fake
{

std::deque<queued_event> take_queued(cm_id &id)
{
    std::deque<queued_event> taken;
    auto *const channel = static_cast<event_channel *>(the().peek(id.face.channel));
    if (channel == nullptr)
        return taken;
    std::deque<queued_event> kept;
    for (queued_event &event : channel->queued) {
        const bool of_id = event.target == &id;
        if (of_id)
            channel->bell.unring();
        (of_id ? taken : kept).push_back(std::move(event));
    }
    channel->queued = std::move(kept);
    return taken;
}

} // namespace fake

extern "C" {

struct rdma_event_channel *rdma_create_event_channel(void)
{
    const call c("rdma_create_event_channel");
    if (c.error() != 0)
        return null<rdma_event_channel>(c.error());
    auto created = std::make_unique<event_channel>();
    created->face.fd = created->bell.fd();
    return the().add_face(std::move(created));
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    call c("rdma_destroy_event_channel", call::kind::infallible);
    if (c.destroy(channel) != EBUSY)
        return;
    const fake::object *const dying = the().peek(channel);
    if (!dying->lost)
        the().problem("rdma_destroy_event_channel with an identifier on it");
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    call c("rdma_get_cm_event");
    if (c.error() != 0)
        return minus_one(c.error());
    event_channel *const found = c.find<event_channel>(channel);
    if (found == nullptr)
        return minus_one(EBADF);
    if (const int error = fake::await_entry(c, found->bell, found->queued); error != 0)
        return minus_one(error);
    queued_event next = std::move(found->queued.front());
    found->queued.pop_front();
    *event = &deliver(c, std::move(next)).face;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    call c("rdma_ack_cm_event");
    cm_event *const found = c.find<cm_event>(event);
    if (found == nullptr)
        return minus_one(EINVAL);
    // After an acknowledgement that fails, the library cannot wait for anything and cannot undo anything.
    --found->counted->unacknowledged;
    the().changed.notify_all();
    return minus_one(c.destroy(event));
}

const char *rdma_event_str(enum rdma_cm_event_type type)
{
    static const char *const names[] = {"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR",
            "RDMA_CM_EVENT_ROUTE_RESOLVED", "RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_CONNECT_REQUEST",
            "RDMA_CM_EVENT_CONNECT_RESPONSE", "RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE",
            "RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED",
            "RDMA_CM_EVENT_DEVICE_REMOVAL", "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR",
            "RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
    return type <= RDMA_CM_EVENT_TIMEWAIT_EXIT ? names[type] : "UNKNOWN EVENT";
}

void fake_incoming(const void *private_data, uint8_t length)
{
    const std::lock_guard<std::mutex> locked(the().mutex);
    cm_id *listener = nullptr;
    for (const auto &[handle, entry] : the().objects)
        if (entry->kind == FAKE_CM_ID && static_cast<cm_id *>(entry.get())->listening &&
                (listener == nullptr || entry->serial < listener->serial))
            listener = static_cast<cm_id *>(entry.get());
    if (listener == nullptr)
        the().problem("an incoming connection without a listener");
    else
        enqueue(*listener, RDMA_CM_EVENT_CONNECT_REQUEST, private_data, length);
}

void fake_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, const void *private_data, uint8_t length)
{
    const std::lock_guard<std::mutex> locked(the().mutex);
    enqueue(*static_cast<cm_id *>(the().peek(id)), type, private_data, length);
}

} // extern "C"
