// SPDX-License-Identifier: BSD-3-Clause
#include "cm/cm.hpp"
#include "transport/shm/fd_server.hpp"
#include "progress/listener.hpp"
#include "base/process.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace softrdma::net::cm
{

namespace
{

// Never destroyed: the progress thread may run until the very end of the process.
struct registry {
    std::mutex lock;
    std::condition_variable acknowledged;
    std::uint64_t next_serial = 1;
    std::unordered_map<std::uint64_t, std::unique_ptr<cm_id>> ids;
};

registry &ids()
{
    static constinit process::single<registry> r;
    return r.get();
}

void abandon_connection(cm_id &id)
{
    switch (id.state) {
    case cm_state::requested: {
        const cm_payload payload =
                encode(cm_rejection{.reason = reject_reason::consumer_defined, .data = {.size = reject_private_size}});
        detail::send(id, opcode::cm_reject, &payload);
        break;
    }
    case cm_state::replied:
    case cm_state::accepted:
    case cm_state::connected:
        detail::stop_looking(id);
        detail::send(id, opcode::cm_disconnect_request);
        break;
    case cm_state::disconnect_received:
        detail::send(id, opcode::cm_disconnect_reply);
        break;
    default:
        break;
    }
    if (id.path != nullptr) {
        id.path->owner = nullptr;
        id.path->finish();
    }
}

} // namespace

std::mutex &lock()
{
    return ids().lock;
}

std::condition_variable &acknowledged()
{
    return ids().acknowledged;
}

cm_id *detail::find_id(std::uint64_t serial)
{
    const auto found = ids().ids.find(serial);
    return found == ids().ids.end() ? nullptr : found->second.get();
}

bool detail::any_id(const std::function<bool(const cm_id &)> &is)
{
    return std::any_of(ids().ids.begin(), ids().ids.end(), [&](const auto &entry) { return is(*entry.second); });
}

cm_id *detail::new_id(event_channel *channel, void *context, rdma_port_space space, const cm_device &device)
{
    auto id = std::make_unique<cm_id>(device);
    id->serial = ids().next_serial++;
    id->channel = channel;
    id->context = context;
    id->ps = space;
    id->qp_type = space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
    cm_id *raw = id.get();
    ids().ids.emplace(raw->serial, std::move(id));
    return raw;
}

void detail::discard(cm_id *id)
{
    abandon_connection(*id);
    for (const auto &[path, request] : id->waiting)
        path->finish();
    if (id->listening != nullptr)
        id->listening->close();
    if (id->socket >= 0)
        close(id->socket);
    ids().ids.erase(id->serial);
}

cm_id *create_id(event_channel *channel, void *context, rdma_port_space space, const cm_device &device)
{
    if (space != RDMA_PS_TCP && space != RDMA_PS_IB && space != RDMA_PS_UDP) {
        errno = EOPNOTSUPP; // multicast over InfiniBand's own addresses is not modelled
        return nullptr;
    }
    if (start_event_loop() == nullptr)
        return nullptr;
    std::unique_ptr<event_channel> own;
    if (channel == nullptr) {
        own = std::make_unique<event_channel>();
        if (own->fd < 0)
            return nullptr;
    }
    const std::lock_guard guard(lock());
    cm_id *id = detail::new_id(channel != nullptr ? channel : own.get(), context, space, device);
    id->sync = channel == nullptr;
    static_cast<void>(own.release());
    return id;
}

int destroy_id(cm_id &id)
{
    std::unique_lock guard(lock());
    detail::acknowledge_stored(id);
    detail::drop_events(id);
    acknowledged().wait(guard, [&] { return id.events_completed == id.events_reported; });
    detail::drop_events(id);
    const std::unique_ptr<event_channel> own(id.sync ? id.events() : nullptr);
    detail::discard(&id);
    return 0;
}

int migrate_id(cm_id &id, event_channel *channel)
{
    if (id.sync && channel == nullptr)
        return detail::fail(EINVAL);
    std::unique_ptr<event_channel> own;
    if (channel == nullptr) {
        own = std::make_unique<event_channel>();
        if (own->fd < 0)
            return -1;
    }
    std::unique_lock guard(lock());
    detail::acknowledge_stored(id);
    event_channel *from = id.events();
    event_channel *to = channel != nullptr ? channel : own.get();
    for (auto next = from->queue_.begin(); next != from->queue_.end();) {
        const auto at = next++;
        if ((*at)->counted_on != &id)
            continue;
        to->queue_.splice(to->queue_.end(), from->queue_, at);
        to->ready_->put();
        from->ready_->withdraw(1);
    }
    id.channel = to;
    static_cast<void>(own.release());
    acknowledged().wait(guard, [&] { return id.events_completed == id.events_reported; });
    if (id.sync)
        delete from;
    id.sync = channel == nullptr;
    return 0;
}

} // namespace softrdma::net::cm
