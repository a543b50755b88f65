// SPDX-License-Identifier: BSD-3-Clause
#include "cm.hpp"

#include <algorithm>
#include <cstring>

#include "address.hpp"
#include "queue_pair.hpp"

// Identifiers of the connection manager.
namespace
{

using fake::call;
using fake::cm_id;
using fake::minus_one;
using fake::queued_event;
using fake::the;

// Path from 192.0.2.1 to 192.0.2.0, as GIDs.
ibv_sa_path_rec resolved_path()
{
    constexpr unsigned char here[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1};
    ibv_sa_path_rec path{};
    std::memcpy(path.sgid.raw, here, sizeof(here));
    std::memcpy(path.dgid.raw, here, sizeof(here));
    path.dgid.raw[15] = 0;
    return path;
}

int usable_for_connecting(call &c, rdma_cm_id *id, const rdma_conn_param *parameters)
{
    if (c.find<cm_id>(id) == nullptr || id->qp == nullptr)
        return EINVAL;
    if (id->channel == nullptr)
        the().problem(std::string(c.name()) + " would block: the identifier is synchronous");
    the().seen.connect_parameters = *parameters;
    return c.error();
}

} // namespace

namespace fake
{

cm_id &make_id(call &c, rdma_event_channel *channel)
{
    auto created = std::make_unique<cm_id>();
    created->face.channel = channel;
    created->face.ps = RDMA_PS_TCP;
    created->face.qp_type = IBV_QPT_RC;
    if (channel != nullptr)
        the().depend(created.get(), channel, c.name());
    cm_id &id = *created;
    the().add(&id.face, std::move(created));
    return id;
}

} // namespace fake

extern "C" {

int rdma_create_id(
        struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space port_space)
{
    call c("rdma_create_id");
    if (context != nullptr || port_space != RDMA_PS_TCP)
        the().problem("rdma_create_id with a context or another port space than TCP");
    if (c.error() != 0)
        return minus_one(c.error());
    *id = &fake::make_id(c, channel).face;
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    call c("rdma_destroy_id");
    cm_id *const dying = c.find<cm_id>(id);
    if (dying == nullptr)
        return minus_one(EINVAL);
    if (c.error() == 0) {
        if (id->qp != nullptr)
            the().problem("rdma_destroy_id with a queue pair");
        if (dying->incoming)
            the().problem("rdma_destroy_id of a request that is neither accepted nor rejected");
        fake::take_queued(*dying);
        fake::await_acknowledged(c, dying->unacknowledged);
    }
    return minus_one(c.destroy(id));
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    call c("rdma_bind_addr");
    if (c.find<cm_id>(id) == nullptr)
        return minus_one(EINVAL);
    if (c.error() != 0)
        return minus_one(c.error());
    if (fake::address_index(address) < the().device.bad_addresses)
        return minus_one(EADDRNOTAVAIL);
    if (!fake::is_wildcard(address))
        id->verbs = fake::context();
    return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *, struct sockaddr *destination, int timeout_ms)
{
    call c("rdma_resolve_addr");
    the().seen.resolve_addr_timeout_ms = timeout_ms;
    cm_id *const found = c.find<cm_id>(id);
    if (found == nullptr)
        return minus_one(EINVAL);
    if (found->resolved)
        the().problem("rdma_resolve_addr on an identifier that tried an address before");
    found->resolved = true;
    if (c.error() != 0)
        return minus_one(c.error());
    if (fake::address_index(destination) < the().device.bad_addresses)
        return minus_one(EHOSTUNREACH);
    found->routed = fake::address_index(destination) >= the().device.bad_routes;
    if (!fake::is_wildcard(destination))
        id->verbs = fake::context();
    return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    call c("rdma_resolve_route");
    the().seen.resolve_route_timeout_ms = timeout_ms;
    cm_id *const found = c.find<cm_id>(id);
    if (found == nullptr || !found->resolved)
        return minus_one(EINVAL);
    if (c.error() != 0 || !found->routed)
        return minus_one(c.error() != 0 ? c.error() : ENETUNREACH);
    static ibv_sa_path_rec path = resolved_path();
    id->route.path_rec = &path;
    id->route.num_paths = 1;
    return 0;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attributes)
{
    call c("rdma_create_qp_ex");
    the().seen.qp_attributes = *attributes;
    cm_id *const found = c.find<cm_id>(id);
    if (found == nullptr || id->verbs == nullptr || id->qp != nullptr)
        return minus_one(EINVAL);
    if (c.error() != 0)
        return minus_one(c.error());
    id->qp = fake::make_qp(c, id->verbs, *attributes);
    return id->qp != nullptr ? 0 : -1;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    call c("rdma_destroy_qp", call::kind::infallible);
    if (c.find<cm_id>(id) == nullptr)
        return;
    if (c.destroy(id->qp) != 0)
        the().problem("rdma_destroy_qp failed");
    id->qp = nullptr;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    call c("rdma_listen");
    the().seen.backlog = backlog;
    cm_id *const found = c.find<cm_id>(id);
    if (found == nullptr || c.error() != 0)
        return minus_one(found == nullptr ? EINVAL : c.error());
    found->listening = true;
    return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
    call c("rdma_connect");
    return minus_one(usable_for_connecting(c, id, parameters));
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
    call c("rdma_accept");
    const int error = usable_for_connecting(c, id, parameters);
    if (error == 0)
        static_cast<cm_id *>(the().peek(id))->incoming = false;
    return minus_one(error);
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
    call c("rdma_reject");
    if (private_data != nullptr || private_data_len != 0)
        the().problem("rdma_reject with private data");
    cm_id *const found = c.find<cm_id>(id);
    if (found == nullptr || !found->incoming)
        return minus_one(EINVAL);
    found->incoming = false;
    return minus_one(c.error());
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    call c("rdma_disconnect");
    return minus_one(c.find<cm_id>(id) == nullptr ? EINVAL : c.error());
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
    call c("rdma_set_option");
    if (c.find<cm_id>(id) == nullptr || level != RDMA_OPTION_ID || name != RDMA_OPTION_ID_ACK_TIMEOUT || size != 1)
        return minus_one(EINVAL);
    if (c.error() != 0)
        return minus_one(c.error());
    the().seen.ack_timeout = *static_cast<const uint8_t *>(value);
    return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    call c("rdma_migrate_id");
    cm_id *const found = c.find<cm_id>(id);
    if (found == nullptr || c.error() != 0)
        return minus_one(found == nullptr ? EINVAL : c.error());
    fake::await_acknowledged(c, found->unacknowledged);
    std::deque<queued_event> moved = fake::take_queued(*found);
    the().release(found, id->channel);
    id->channel = channel;
    if (channel == nullptr)
        return 0;
    the().depend(found, channel, c.name());
    auto &target = *static_cast<fake::event_channel *>(the().peek(channel));
    for (queued_event &event : moved) {
        target.queued.push_back(std::move(event));
        target.bell.ring();
    }
    return 0;
}

} // extern "C"
