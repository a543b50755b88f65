// SPDX-License-Identifier: BSD-3-Clause
#include "abi/device.hpp"
#include "base/gid_table.hpp"
#include "cm/cm.hpp"
#include "cm/cm_roce.hpp"
#include "cm/roce_connect.hpp"

#include <cstdlib>
#include <string_view>

using namespace softrdma;
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

// Waits for the event of a call for a synchronous id, and stores it in id.event.
int complete(cm_id &id)
{
    if (!id.sync)
        return 0;
    {
        const lock_guard guard(cm::lock());
        cm::detail::acknowledge_stored(id);
    }
    if (cm::get_event(*id.events(), &id.event) != 0)
        return -1;
    if (id.event->status == 0)
        return 0;
    return fail_with(-1, id.event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : std::abs(id.event->status));
}

// Returns the result of the call for the id, or -1 with errno: ENODEV if a parent process created it, ENOMEM.
template<typename Call>
int with_id(rdma_cm_id *id, Call call) noexcept
{
    return abi::usable(id_of(id).birth) ? or_no_memory(-1, [&] { return call(id_of(id)); }) : -1;
}

template<typename Call>
int complete_with_id(rdma_cm_id *id, Call call) noexcept
{
    return with_id(id, call) != 0 ? -1 : complete(id_of(id));
}

} // namespace

extern "C" {

rdma_event_channel *rdma_create_event_channel(void)
{
    return or_no_memory<rdma_event_channel *>(nullptr, [] {
        auto channel = std::make_unique<event_channel>();
        return channel->fd < 0 ? nullptr : channel.release();
    });
}

void rdma_destroy_event_channel(rdma_event_channel *channel)
{
    if (channel != nullptr)
        cm::destroy_channel(static_cast<event_channel *>(channel));
}

int rdma_create_id(rdma_event_channel *channel, rdma_cm_id **id, void *context, rdma_port_space space)
{
    auto *events = static_cast<event_channel *>(channel);
    if (channel != nullptr && !abi::usable(events->birth))
        return -1;
    cm_id *created = or_no_memory<cm_id *>(nullptr, [&]() -> cm_id * {
        if (roce_connect::is_selected() && !cm::over_roce::open())
            return nullptr;
        return cm::create_id(events, context, space, {abi::process_context, abi::process_pd});
    });
    if (created == nullptr)
        return -1;
    *id = created;
    return 0;
}

int rdma_destroy_id(rdma_cm_id *id)
{
    return with_id(id, cm::destroy_id);
}

int rdma_migrate_id(rdma_cm_id *id, rdma_event_channel *channel)
{
    return with_id(id, [&](cm_id &i) { return cm::migrate_id(i, static_cast<event_channel *>(channel)); });
}

int rdma_bind_addr(rdma_cm_id *id, sockaddr *address)
{
    return with_id(id, [&](cm_id &i) { return cm::bind(i, address); });
}

int rdma_resolve_addr(rdma_cm_id *id, sockaddr *source, sockaddr *destination, int)
{
    return complete_with_id(id, [&](cm_id &i) { return cm::resolve_address(i, source, destination); });
}

int rdma_resolve_route(rdma_cm_id *id, int)
{
    return complete_with_id(id, cm::resolve_route);
}

int rdma_listen(rdma_cm_id *id, int backlog)
{
    return with_id(id, [&](cm_id &i) {
        const bool needs_port = roce_connect::is_accepted() && !cm::detail::is_datagram(i);
        return needs_port && !cm::over_roce::open() ? -1 : cm::listen(i, backlog);
    });
}

int rdma_connect(rdma_cm_id *id, rdma_conn_param *param)
{
    return complete_with_id(id, [&](cm_id &i) { return cm::connect(i, param); });
}

int rdma_accept(rdma_cm_id *id, rdma_conn_param *param)
{
    return complete_with_id(id, [&](cm_id &i) { return cm::accept(i, param); });
}

int rdma_reject(rdma_cm_id *id, const void *data, std::uint8_t length)
{
    return with_id(id, [&](cm_id &i) { return cm::reject(i, reject_reason::consumer_defined, data, length); });
}

int rdma_reject_ece(rdma_cm_id *id, const void *data, std::uint8_t length)
{
    return with_id(
            id, [&](cm_id &i) { return cm::reject(i, reject_reason::vendor_option_not_supported, data, length); });
}

int rdma_establish(rdma_cm_id *id)
{
    return with_id(id, cm::establish);
}

int rdma_notify(rdma_cm_id *id, ibv_event_type event)
{
    return with_id(id, [&](cm_id &i) { return cm::notify(i, event); });
}

int rdma_disconnect(rdma_cm_id *id)
{
    return complete_with_id(id, cm::disconnect);
}

int rdma_get_cm_event(rdma_event_channel *channel, rdma_cm_event **event)
{
    if (event == nullptr || channel == nullptr)
        return fail_with(-1, EINVAL);
    auto &events = *static_cast<event_channel *>(channel);
    return abi::usable(events.birth) ? cm::get_event(events, event) : -1;
}

int rdma_ack_cm_event(rdma_cm_event *event)
{
    if (event != nullptr && !abi::usable(static_cast<cm_event *>(event)->birth))
        return -1;
    return cm::acknowledge(static_cast<cm_event *>(event));
}

int rdma_init_qp_attr(rdma_cm_id *id, ibv_qp_attr *attr, int *mask)
{
    return with_id(id, [&](cm_id &i) { return cm::queue_pair_attributes(i, *attr, *mask); });
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
    const lock_guard guard(cm::lock());
    if (name == RDMA_OPTION_ID_TOS)
        id_of(id).traffic_class = *static_cast<const std::uint8_t *>(value);
    if (name == RDMA_OPTION_ID_AFONLY)
        id_of(id).v6_only = *static_cast<const int *>(value) != 0;
    if (name == RDMA_OPTION_ID_REUSEADDR) {
        const bool shares = *static_cast<const int *>(value) != 0;
        const cm_state state = id_of(id).state;
        if (state != cm_state::idle && (!shares || state == cm_state::listening))
            return fail_with(-1, EINVAL);
        id_of(id).shares_port = shares;
    }
    if (name == RDMA_OPTION_ID_ACK_TIMEOUT) {
        constexpr std::uint8_t five_bits = 31;
        const std::uint8_t timeout = *static_cast<const std::uint8_t *>(value);
        if (timeout > five_bits)
            return fail_with(-1, EINVAL);
        id_of(id).ack_timeout = timeout;
    }
    return 0;
}

__be16 rdma_get_src_port(rdma_cm_id *id)
{
    return port_of(id->route.addr.src_storage);
}

__be16 rdma_get_dst_port(rdma_cm_id *id)
{
    return port_of(id->route.addr.dst_storage);
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
