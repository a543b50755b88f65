// SPDX-License-Identifier: BSD-3-Clause
#include "verbs.hpp"

#include <cstdlib>
#include <netdb.h>

#include "descriptor.hpp"

namespace bench::verbs
{

namespace
{

// Device capabilities of rdma-core 45 and newer, which older headers lack.
constexpr std::uint64_t device_flushes = 1ULL << 38 | 1ULL << 39; // flush to visibility and to persistence
constexpr std::uint64_t device_writes_atomically = 1ULL << 40;
constexpr std::uint64_t send_op_flush = 1ULL << 11;
constexpr std::uint64_t send_op_atomic_write = 1ULL << 12;
constexpr int access_flush_global = 1 << 8;
constexpr int access_flush_persistent = 1 << 9;

using event_owner = owner<rdma_cm_event, rdma_ack_cm_event>;

addrinfo_owner resolve(const address &where, int flags)
{
    addrinfo hints{};
    hints.ai_flags = flags;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo *list = nullptr;
    const int error = getaddrinfo(where.host.c_str(), where.port.empty() ? nullptr : where.port.c_str(), &hints, &list);
    if (error != 0)
        throw failure("cannot resolve " + where.host + ": " + gai_strerror(error));
    return addrinfo_owner(list);
}

// Creates a synchronous identifier and resolves its remote address and, on request, its route.
owner<rdma_cm_id, rdma_destroy_id> resolved_id(const address &to, bool with_route)
{
    rdma_cm_id *id = nullptr;
    check(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
    owner<rdma_cm_id, rdma_destroy_id> owned(id);
    const addrinfo_owner found = resolve(to, 0);
    check(rdma_resolve_addr(id, nullptr, found->ai_addr, handshake_timeout_ms), "rdma_resolve_addr");
    if (with_route)
        check(rdma_resolve_route(id, handshake_timeout_ms), "rdma_resolve_route");
    return owned;
}

owner<rdma_cm_id, rdma_destroy_id> bound_id(rdma_event_channel *events, const address &at)
{
    rdma_cm_id *id = nullptr;
    check(rdma_create_id(events, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
    owner<rdma_cm_id, rdma_destroy_id> owned(id);
    const addrinfo_owner found = resolve(at, AI_PASSIVE);
    check(rdma_bind_addr(id, found->ai_addr), "rdma_bind_addr");
    return owned;
}

// Returns NULL if the descriptor was readable because of an event that has moved to another channel.
event_owner next_event(rdma_event_channel *events)
{
    rdma_cm_event *event = nullptr;
    if (rdma_get_cm_event(events, &event) != 0 && errno != EAGAIN)
        fail("rdma_get_cm_event", errno);
    return event_owner(event);
}

event_owner wait_until_established(rdma_event_channel *events)
{
    event_owner event;
    while (!event) {
        if (!wait_readable(events->fd, handshake_timeout_ms))
            throw failure("no response to the connection request");
        event = next_event(events);
    }
    if (event->event != RDMA_CM_EVENT_ESTABLISHED)
        throw failure(std::string("cannot connect: ") + rdma_event_str(event->event));
    return event;
}

rdma_conn_param parameters_with(const void *data, std::size_t len)
{
    rdma_conn_param param{};
    param.private_data = data;
    param.private_data_len = static_cast<std::uint8_t>(len);
    param.responder_resources = RDMA_MAX_RESP_RES;
    param.initiator_depth = RDMA_MAX_INIT_DEPTH;
    param.flow_control = 1;
    param.retry_count = 7;
    param.rnr_retry_count = 7;
    return param;
}

owner<rdma_event_channel, rdma_destroy_event_channel> create_events()
{
    owner<rdma_event_channel, rdma_destroy_event_channel> events(rdma_create_event_channel());
    if (events == nullptr)
        fail("rdma_create_event_channel", errno);
    make_nonblocking(events->fd);
    return events;
}

} // namespace

void fail(const char *call, int error)
{
    throw failure(std::string(call) + " failed: " + std::strerror(error));
}

device::device(const std::string &host, end which)
{
    ibv_context *context = nullptr;
    if (which == end::client)
        context = resolved_id({host, "7"}, false)->verbs;
    else
        context = bound_id(create_events().get(), {host, ""})->verbs;
    if (context == nullptr)
        throw failure("no RDMA device for the address " + host, exit_cannot_run);
    pd_.reset(ibv_alloc_pd(context));
    if (pd_ == nullptr)
        fail("ibv_alloc_pd", errno);
    query(context);
}

void device::query(ibv_context *context)
{
    const auto is_emulated = [](const char *variable) {
        const char *const method = getenv(variable);
        return method != nullptr && std::strcmp(method, "emulated") == 0;
    };
    ibv_device_attr_ex attributes{};
    check(ibv_query_device_ex(context, nullptr, &attributes), "ibv_query_device_ex");
    const std::uint64_t can = attributes.device_cap_flags_ex;
    flushes_ = (can & device_flushes) == device_flushes && !is_emulated("RPMA_FLUSH_METHOD");
    writes_atomically_ = (can & device_writes_atomically) != 0 && !is_emulated("RPMA_ATOMIC_WRITE_METHOD");
}

region::region(const device &on, void *data, std::size_t size, region_use use)
{
    const bool is_target = use == region_use::target_data || use == region_use::target_pmem;
    int access = IBV_ACCESS_LOCAL_WRITE | (is_target ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ : 0);
    if (is_target && on.flushes())
        access |= access_flush_global | (use == region_use::target_pmem ? access_flush_persistent : 0);
    mr_.reset((ibv_reg_mr)(on.pd(), data, size, access));
    if (mr_ == nullptr)
        fail("ibv_reg_mr", errno);
}

region_descriptor region::descriptor() const
{
    return {reinterpret_cast<std::uintptr_t>(mr_->addr), mr_->length, mr_->rkey, 0};
}

endpoint_parts::~endpoint_parts()
{
    if (id && has_qp) // false after a move
        rdma_destroy_qp(id.get());
    cq.reset();
    channel.reset();
    id.reset();
}

void endpoint_parts::create_queues(const device &on, const queue_sizes &sizes)
{
    events = create_events();
    check(rdma_migrate_id(id.get(), events.get()), "rdma_migrate_id");
    channel.reset(ibv_create_comp_channel(id->verbs));
    if (channel == nullptr)
        fail("ibv_create_comp_channel", errno);
    cq.reset(ibv_create_cq(id->verbs, static_cast<int>(sizes.completions()), nullptr, channel.get(), 0));
    if (cq == nullptr)
        fail("ibv_create_cq", errno);
    check(ibv_req_notify_cq(cq.get(), 0), "ibv_req_notify_cq");

    ibv_qp_init_attr_ex attributes{};
    attributes.send_cq = cq.get();
    attributes.recv_cq = cq.get();
    attributes.cap = {sizes.sends, sizes.receives, 1, 1, 8};
    attributes.qp_type = IBV_QPT_RC;
    attributes.pd = on.pd();
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
    attributes.send_ops_flags =
            (on.flushes() ? send_op_flush : 0) | (on.writes_atomically() ? send_op_atomic_write : 0);
    if (attributes.send_ops_flags != 0)
        attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    check(rdma_create_qp_ex(id.get(), &attributes), "rdma_create_qp_ex");
    has_qp = true;
}

connection::connection(const device &on, endpoint_parts &&parts, const region *data, const region *messages)
    : parts_(std::move(parts)), qp_(parts_.id->qp), data_(data->get()),
      messages_(messages == nullptr ? nullptr : messages->get())
{
    if (on.flushes())
        native_flush_ = ibv_qp_to_qp_ex(qp_);
    if (on.writes_atomically())
        native_atomic_write_ = ibv_qp_to_qp_ex(qp_);
    flush_mr_.reset((ibv_reg_mr)(on.pd(), &flush_target_, sizeof flush_target_, IBV_ACCESS_LOCAL_WRITE));
    if (flush_mr_ == nullptr)
        fail("ibv_reg_mr", errno);
}

std::unique_ptr<connection> connection::connect(const device &on, const address &to, const queue_sizes &sizes,
        const region *data, const region *messages, const greeting &handshake)
{
    endpoint_parts parts;
    parts.id = resolved_id(to, true);
    parts.create_queues(on, sizes);
    std::unique_ptr<connection> created(new connection(on, std::move(parts), data, messages));
    rdma_conn_param param = parameters_with(&handshake, sizeof handshake);
    check(rdma_connect(created->parts_.id.get(), &param), "rdma_connect");

    const event_owner event = wait_until_established(created->parts_.events.get());
    connect_response response;
    if (!read_private_data(event->param.conn.private_data, event->param.conn.private_data_len, response))
        throw failure(to.host + " port " + to.port + ": not an rpma-bench server");
    created->remote_ = response.region;
    return created;
}

void connection::acknowledge_event()
{
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    check(ibv_get_cq_event(parts_.channel.get(), &cq, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    check(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
}

bool connection::has_ended()
{
    const event_owner event = next_event(parts_.events.get());
    return event && event->event != RDMA_CM_EVENT_ESTABLISHED;
}

listener::listener(const device &on, const address &at)
    : device_(on), events_(create_events()), id_(bound_id(events_.get(), at))
{
    check(rdma_listen(id_.get(), 0), "rdma_listen");
}

accepted<connection> listener::accept(const acceptance<region> &how)
{
    endpoint_parts parts;
    greeting handshake;
    {
        const event_owner event = next_event(events_.get());
        if (!event || event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
            return {};
        parts.id.reset(event->id);
        if (!read_private_data(event->param.conn.private_data, event->param.conn.private_data_len, handshake) ||
                handshake.connection >= how.connections)
            return {};
    }
    parts.create_queues(device_, how.sizes);
    std::unique_ptr<connection> created(new connection(device_, std::move(parts), how.data, how.messages));
    for (std::size_t i = 0; i < how.receives; ++i)
        created->receive(handshake.connection * how.messages_of_one + i * how.slot, how.slot, receive_mark | i);

    connect_response response;
    response.region = how.data->descriptor();
    response.peer_cfg = how.direct_write;
    rdma_conn_param param = parameters_with(&response, sizeof response);
    check(rdma_accept(created->parts_.id.get(), &param), "rdma_accept");
    wait_until_established(created->parts_.events.get());
    return {std::move(created), handshake.connection};
}

} // namespace bench::verbs
