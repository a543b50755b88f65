// SPDX-License-Identifier: BSD-3-Clause
#include "abi/rdma_sync.hpp"

using namespace softrdma;
using namespace softrdma::net;
using abi::complete;
using abi::fail_with;

namespace
{

std::string_view event_name(rdma_cm_event_type event) noexcept
{
    constexpr std::string_view names[] = {"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR",
            "RDMA_CM_EVENT_ROUTE_RESOLVED", "RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_CONNECT_REQUEST",
            "RDMA_CM_EVENT_CONNECT_RESPONSE", "RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE",
            "RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED",
            "RDMA_CM_EVENT_DEVICE_REMOVAL", "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR",
            "RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
    const auto index = static_cast<std::size_t>(event);
    return index < std::size(names) ? names[index] : "UNKNOWN EVENT";
}

__be16 port_of(const sockaddr *address) noexcept
{
    if (address->sa_family == AF_INET6)
        return reinterpret_cast<const sockaddr_in6 *>(address)->sin6_port;
    return address->sa_family == AF_INET ? reinterpret_cast<const sockaddr_in *>(address)->sin_port : __be16{0};
}

} // namespace

namespace softrdma::abi
{

int complete(cm_id &id)
{
    if (!id.sync)
        return 0;
    {
        const std::lock_guard guard(cm::lock());
        cm::detail::acknowledge_stored(id);
    }
    if (cm::get_event(*id.events(), &id.event) != 0)
        return -1;
    if (id.event->status == 0)
        return 0;
    return fail_with(-1, id.event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : std::abs(id.event->status));
}

} // namespace softrdma::abi

extern "C" {

rdma_event_channel *rdma_create_event_channel(void)
{
    auto channel = std::make_unique<event_channel>();
    return channel->fd < 0 ? nullptr : channel.release();
}

void rdma_destroy_event_channel(rdma_event_channel *channel)
{
    if (channel != nullptr)
        cm::destroy_channel(static_cast<event_channel *>(channel));
}

int rdma_create_id(rdma_event_channel *channel, rdma_cm_id **id, void *context, rdma_port_space space)
{
    if (channel != nullptr && !abi::usable(static_cast<event_channel *>(channel)->birth))
        return -1;
    cm_id *created = cm::create_id(
            static_cast<event_channel *>(channel), context, space, {abi::process_context, abi::process_pd});
    if (created == nullptr)
        return -1;
    *id = created;
    return 0;
}

int rdma_destroy_id(rdma_cm_id *id)
{
    return abi::usable(id_of(id).birth) ? cm::destroy_id(id_of(id)) : -1;
}

int rdma_migrate_id(rdma_cm_id *id, rdma_event_channel *channel)
{
    return abi::usable(id_of(id).birth) ? cm::migrate_id(id_of(id), static_cast<event_channel *>(channel)) : -1;
}

int rdma_bind_addr(rdma_cm_id *id, sockaddr *address)
{
    return abi::usable(id_of(id).birth) ? cm::bind(id_of(id), address) : -1;
}

int rdma_resolve_addr(rdma_cm_id *id, sockaddr *source, sockaddr *destination, int)
{
    if (!abi::usable(id_of(id).birth) || cm::resolve_address(id_of(id), source, destination) != 0)
        return -1;
    return complete(id_of(id));
}

int rdma_resolve_route(rdma_cm_id *id, int)
{
    return !abi::usable(id_of(id).birth) || cm::resolve_route(id_of(id)) != 0 ? -1 : complete(id_of(id));
}

int rdma_listen(rdma_cm_id *id, int backlog)
{
    return abi::usable(id_of(id).birth) ? cm::listen(id_of(id), backlog) : -1;
}

int rdma_connect(rdma_cm_id *id, rdma_conn_param *param)
{
    return !abi::usable(id_of(id).birth) || cm::connect(id_of(id), param) != 0 ? -1 : complete(id_of(id));
}

int rdma_accept(rdma_cm_id *id, rdma_conn_param *param)
{
    return !abi::usable(id_of(id).birth) || cm::accept(id_of(id), param) != 0 ? -1 : complete(id_of(id));
}

int rdma_reject(rdma_cm_id *id, const void *data, std::uint8_t length)
{
    return abi::usable(id_of(id).birth) ? cm::reject(id_of(id), reject_reason::consumer_defined, data, length) : -1;
}

int rdma_reject_ece(rdma_cm_id *id, const void *data, std::uint8_t length)
{
    return abi::usable(id_of(id).birth)
                   ? cm::reject(id_of(id), reject_reason::vendor_option_not_supported, data, length)
                   : -1;
}

int rdma_establish(rdma_cm_id *id)
{
    return abi::usable(id_of(id).birth) ? cm::establish(id_of(id)) : -1;
}

int rdma_notify(rdma_cm_id *id, ibv_event_type event)
{
    return abi::usable(id_of(id).birth) ? cm::notify(id_of(id), event) : -1;
}

int rdma_disconnect(rdma_cm_id *id)
{
    return !abi::usable(id_of(id).birth) || cm::disconnect(id_of(id)) != 0 ? -1 : complete(id_of(id));
}

int rdma_get_cm_event(rdma_event_channel *channel, rdma_cm_event **event)
{
    if (event == nullptr || channel == nullptr)
        return fail_with(-1, EINVAL);
    return abi::usable(static_cast<event_channel *>(channel)->birth)
                   ? cm::get_event(*static_cast<event_channel *>(channel), event)
                   : -1;
}

int rdma_ack_cm_event(rdma_cm_event *event)
{
    if (event != nullptr && !abi::usable(static_cast<cm_event *>(event)->birth))
        return -1;
    return cm::acknowledge(static_cast<cm_event *>(event));
}

int rdma_init_qp_attr(rdma_cm_id *id, ibv_qp_attr *attr, int *mask)
{
    return abi::usable(id_of(id).birth) ? cm::queue_pair_attributes(id_of(id), *attr, *mask) : -1;
}

int rdma_set_option(rdma_cm_id *id, int level, int name, void *value, std::size_t size)
{
    if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
        return 0;
    if (level != RDMA_OPTION_ID || name < RDMA_OPTION_ID_TOS || name > RDMA_OPTION_ID_ACK_TIMEOUT)
        return fail_with(-1, ENOSYS);
    const bool is_int = name == RDMA_OPTION_ID_REUSEADDR || name == RDMA_OPTION_ID_AFONLY;
    if (value == nullptr || size != (is_int ? sizeof(int) : sizeof(std::uint8_t)))
        return fail_with(-1, EINVAL);
    const std::lock_guard guard(cm::lock());
    if (name == RDMA_OPTION_ID_AFONLY)
        id_of(id).v6_only = *static_cast<const int *>(value) != 0;
    if (name == RDMA_OPTION_ID_ACK_TIMEOUT) {
        constexpr std::uint8_t five_bits = 31;
        const std::uint8_t timeout = *static_cast<const std::uint8_t *>(value);
        if (timeout > five_bits)
            return fail_with(-1, EINVAL);
        id_of(id).ack_timeout = timeout;
    }
    return 0; // the others have no meaning on TCP
}

__be16 rdma_get_src_port(rdma_cm_id *id)
{
    return port_of(&id->route.addr.src_addr);
}

__be16 rdma_get_dst_port(rdma_cm_id *id)
{
    return port_of(&id->route.addr.dst_addr);
}

const char *rdma_event_str(rdma_cm_event_type event)
{
    return event_name(event).data();
}

ibv_context **rdma_get_devices(int *count)
{
    ibv_context *context = abi::process_context();
    auto **list = context == nullptr ? nullptr : static_cast<ibv_context **>(calloc(2, sizeof(ibv_context *)));
    if (list == nullptr)
        return nullptr;
    list[0] = context;
    if (count != nullptr)
        *count = 1;
    return list;
}

void rdma_free_devices(ibv_context **list)
{
    free(list);
}

} // extern "C"
