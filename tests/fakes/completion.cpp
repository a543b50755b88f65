// SPDX-License-Identifier: BSD-3-Clause
#include "completion.hpp"

#include <algorithm>

// Completion channels and completion queues.
namespace
{

using fake::call;
using fake::comp_channel;
using fake::cq;
using fake::minus_one;
using fake::null;
using fake::the;

void queue_event(cq &source)
{
    auto *const channel = static_cast<comp_channel *>(the().peek(source.face.channel));
    if (channel == nullptr)
        return;
    channel->fired.push_back(&source.face);
    channel->bell.ring();
}

void drop_events(const cq &source)
{
    auto *const channel = static_cast<comp_channel *>(the().peek(source.face.channel));
    if (channel == nullptr)
        return;
    const auto dropped = std::erase(channel->fired, &source.face);
    for (auto i = dropped; i > 0; --i)
        channel->bell.unring();
}

int poll_cq(ibv_cq *queue, int entries, ibv_wc *wc)
{
    call c("ibv_poll_cq");
    if (c.error() != 0)
        return minus_one(c.error());
    cq *const found = c.find<cq>(queue);
    if (found == nullptr)
        return minus_one(EINVAL);
    int taken = 0;
    for (; taken < entries && !found->completions.empty(); ++taken) {
        wc[taken] = found->completions.front();
        found->completions.pop_front();
    }
    return the().device.poll_surplus != 0 ? entries + static_cast<int>(the().device.poll_surplus) : taken;
}

int req_notify_cq(ibv_cq *queue, int solicited_only)
{
    call c("ibv_req_notify_cq");
    the().seen.solicited_only = solicited_only;
    if (c.error() != 0)
        return c.error();
    if (cq *const found = c.find<cq>(queue))
        found->armed = true;
    return 0;
}

} // namespace

namespace fake
{

void configure_completion(ibv_context_ops &ops)
{
    ops.poll_cq = poll_cq;
    ops.req_notify_cq = req_notify_cq;
}

} // namespace fake

extern "C" {

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    const call c("ibv_create_comp_channel");
    if (c.error() != 0)
        return null<ibv_comp_channel>(c.error());
    auto created = std::make_unique<comp_channel>();
    created->face.context = context;
    created->face.fd = created->bell.fd();
    return the().add_face(std::move(created));
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    return call("ibv_destroy_comp_channel").destroy(channel);
}

struct ibv_cq *ibv_create_cq(
        struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector)
{
    const call c("ibv_create_cq");
    if (comp_vector != 0)
        the().problem("ibv_create_cq with a completion vector");
    if (c.error() != 0)
        return null<ibv_cq>(c.error());
    if (cqe < 1)
        return null<ibv_cq>(EINVAL);
    auto created = std::make_unique<cq>();
    created->face.context = context;
    created->face.channel = channel;
    created->face.cq_context = cq_context;
    created->face.cqe = cqe;
    if (channel != nullptr)
        the().depend(created.get(), channel, c.name());
    return the().add_face(std::move(created));
}

int ibv_destroy_cq(struct ibv_cq *queue)
{
    call c("ibv_destroy_cq");
    cq *const dying = c.find<cq>(queue);
    if (dying == nullptr)
        return EINVAL;
    if (c.error() == 0 && dying->children.empty()) {
        drop_events(*dying);
        fake::await_acknowledged(c, dying->unacknowledged);
    }
    return c.destroy(queue);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **queue, void **cq_context)
{
    call c("ibv_get_cq_event");
    if (c.error() != 0)
        return minus_one(c.error());
    comp_channel *const found = c.find<comp_channel>(channel);
    if (found == nullptr)
        return minus_one(EBADF);
    if (const int error = fake::await_entry(c, found->bell, found->fired); error != 0)
        return minus_one(error);
    *queue = found->fired.front();
    *cq_context = found->fired.front()->cq_context;
    found->fired.pop_front();
    ++static_cast<cq *>(the().peek(*queue))->unacknowledged;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *queue, unsigned int count)
{
    call c("ibv_ack_cq_events", call::kind::infallible);
    cq *const found = c.find<cq>(queue);
    if (found == nullptr)
        return;
    if (count > found->unacknowledged)
        the().problem("ibv_ack_cq_events of events never got");
    found->unacknowledged -= std::min(count, found->unacknowledged);
    the().changed.notify_all();
}

void fake_complete(struct ibv_cq *queue, const struct ibv_wc *wc)
{
    const std::lock_guard<std::mutex> locked(the().mutex);
    auto &target = *static_cast<cq *>(the().peek(queue));
    if (wc != nullptr)
        target.completions.push_back(*wc);
    if (target.armed) {
        target.armed = false;
        queue_event(target);
    }
}

void fake_fire(struct ibv_cq *queue)
{
    const std::lock_guard<std::mutex> locked(the().mutex);
    queue_event(*static_cast<cq *>(the().peek(queue)));
}

} // extern "C"
