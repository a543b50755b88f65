// SPDX-License-Identifier: BSD-3-Clause
#include "cm/cm.hpp"
#include "cm/cm_roce.hpp"
#include "transport/shm/fd_server.hpp"
#include "progress/listener.hpp"
#include "base/gid_table.hpp"
#include "base/process.hpp"

#include <cerrno>
#include <unistd.h>

namespace softrdma::cm
{

namespace
{

struct registry {
    ordered_mutex lock{lock_level::connecting};
    condition acknowledged;
    std::uint64_t next_serial GUARDED_BY(cm::lock()) = 1;
    std::unordered_map<std::uint64_t, std::unique_ptr<cm_id>> ids GUARDED_BY(cm::lock());
};

registry &ids()
{
    static constinit process::single<registry> r;
    return r.get();
}

// Creates a channel unless the program has specified one. Returns false and sets errno on error.
bool create_channel(const event_channel *specified, std::unique_ptr<event_channel> &created)
{
    if (specified == nullptr)
        created = std::make_unique<event_channel>();
    return created == nullptr || created->fd >= 0;
}

void abandon_connection(cm_id &id) REQUIRES(lock())
{
    if (id.link != nullptr)
        return over_roce::abandon(id);
    switch (id.state) {
    case cm_state::requested:
        detail::send_rejection(id, no_reason);
        break;
    case cm_state::replied:
    case cm_state::accepted:
    case cm_state::connected:
        id.stop_searching();
        detail::send_disconnect_request(id);
        break;
    case cm_state::disconnect_received:
        detail::send_disconnect_reply(id);
        break;
    default:
        break;
    }
    id.end_path();
}

} // namespace

ordered_mutex &lock()
{
    return ids().lock;
}

condition &acknowledged()
{
    return ids().acknowledged;
}

bool detail::is_port_taken(const cm_id &id, sockaddr_storage address, bool shares)
{
    const auto serves_one_family = [](int family, bool v6_only) { return family == AF_INET || v6_only; };
    const bool wildcard = is_wildcard(reinterpret_cast<const sockaddr *>(&address));
    for (const auto &[serial, other] : ids().ids) {
        sockaddr_storage &taken = other->route.addr.src_storage;
        if (other.get() == &id || !other->owns_port || port_of(taken) != port_of(address) ||
                (shares && other->shares_port))
            continue;
        const bool apart = taken.ss_family != address.ss_family && serves_one_family(address.ss_family, id.v6_only) &&
                           serves_one_family(taken.ss_family, other->v6_only);
        if (!apart && (wildcard || is_wildcard(&other->route.addr.src_addr) || same(gid_of(taken), gid_of(address))))
            return true;
    }
    return false;
}

cm_id *detail::find_id(std::uint64_t serial)
{
    const auto found = ids().ids.find(serial);
    return found == ids().ids.end() ? nullptr : found->second.get();
}

bool expects(std::uint32_t peer_number, const ibv_gid &peer)
{
    for (const auto &[serial, id] : ids().ids) {
        if (id->state == cm_state::requested && id->remote.qpn == peer_number &&
                same(id->route.addr.addr.ibaddr.dgid, peer))
            return true;
    }
    return false;
}

cm_id *detail::new_id(event_channel *channel, void *context, rdma_port_space space, const cm_device &device)
{
    auto id = std::make_unique<cm_id>(device);
    id->serial = ids().next_serial++;
    id->channel = channel;
    id->context = context;
    id->ps = space;
    id->qp_type = space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
    id->spare_event.push_back(std::unique_ptr<cm_event>(::new cm_event));
    id->timewait = prepare_timewait(id->serial);
    cm_id *added = id.get();
    ids().ids.emplace(added->serial, std::move(id));
    return added;
}

void detail::discard(cm_id *id)
{
    abandon_connection(*id);
    for (const auto &[path, request] : id->waiting)
        path->finish();
    if (id->listening != nullptr)
        id->listening->close();
    over_roce::stop_listening(*id);
    if (id->socket >= 0)
        close(id->socket);
    ids().ids.erase(id->serial);
}

cm_id *create_id(event_channel *channel, void *context, rdma_port_space space, const cm_device &device)
{
    if (space != RDMA_PS_TCP && space != RDMA_PS_IB && space != RDMA_PS_UDP) {
        errno = EOPNOTSUPP; // multicast over InfiniBand addresses is not modeled
        return nullptr;
    }
    if (start_event_loop() == nullptr)
        return nullptr;
    std::unique_ptr<event_channel> created;
    if (!create_channel(channel, created))
        return nullptr;
    const lock_guard guard(lock());
    cm_id *id = detail::new_id(channel != nullptr ? channel : created.get(), context, space, device);
    id->sync = channel == nullptr;
    static_cast<void>(created.release());
    return id;
}

int destroy_id(cm_id &id)
{
    const lock_guard guard(lock());
    detail::acknowledge_stored(id);
    detail::drop_events(id);
    while (id.events_completed != id.events_reported)
        acknowledged().wait(lock());
    detail::drop_events(id);
    const std::unique_ptr<event_channel> private_channel(id.sync ? id.events() : nullptr);
    detail::discard(&id);
    return 0;
}

int migrate_id(cm_id &id, event_channel *channel)
{
    if (id.sync && channel == nullptr)
        return detail::fail(EINVAL);
    std::unique_ptr<event_channel> created;
    if (!create_channel(channel, created))
        return -1;
    const lock_guard guard(lock());
    detail::acknowledge_stored(id);
    event_channel *from = id.events();
    event_channel *to = channel != nullptr ? channel : created.get();
    for (auto next = from->queue_.begin(); next != from->queue_.end();) {
        const auto at = next++;
        if ((*at)->counted_on != &id)
            continue;
        to->queue_.splice(to->queue_.end(), from->queue_, at);
        to->ready_->put();
        from->ready_->withdraw(1);
    }
    id.channel = to;
    static_cast<void>(created.release());
    while (id.events_completed != id.events_reported)
        acknowledged().wait(lock());
    if (id.sync)
        delete from;
    id.sync = channel == nullptr;
    return 0;
}

} // namespace softrdma::cm
