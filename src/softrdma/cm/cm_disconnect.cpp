// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"
#include "cm/cm.hpp"
#include "cm/cm_roce.hpp"

#include <cerrno>

namespace softrdma::cm
{

static void close_path(cm_id &id) REQUIRES(lock())
{
    id.state = cm_state::closed;
    id.end_path();
    event_loop::get()->defer(std::move(id.timewait), settings().timewait);
}

static void give_up_disconnect(std::uint64_t serial)
{
    const lock_guard guard(lock());
    cm_id *id = detail::find_id(serial);
    if (id != nullptr && id->state == cm_state::disconnect_sent)
        detail::disconnected(*id, -ETIMEDOUT);
}

reserve::prepared_call detail::prepare_timewait(std::uint64_t serial)
{
    return reserve::prepared_call([serial](reserve::prepared_call &own) {
        const lock_guard guard(lock());
        cm_id *id = find_id(serial);
        if (id == nullptr)
            return;
        if (id->last_event.empty())
            return queue_event(*id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
        event_loop::get()->defer(std::move(own), std::chrono::milliseconds(1));
    });
}

void detail::disconnected(cm_id &id, int status)
{
    queue_last_event(id, RDMA_CM_EVENT_DISCONNECTED, status, true);
    close_path(id);
}

void detail::send_disconnect_request(cm_id &id)
{
    if (id.link != nullptr)
        return over_roce::disconnect(id);
    id.path->send_control(opcode::cm_disconnect_request, {});
    id.path->unhold();
}

void detail::send_disconnect_reply(cm_id &id)
{
    if (id.link != nullptr)
        return over_roce::confirm_disconnect(id);
    id.path->send_control(opcode::cm_disconnect_reply, {});
}

bool detail::received_disconnect(cm_id &id, opcode op)
{
    switch (id.state) {
    case cm_state::disconnect_sent: // the response, or a crossing request, which counts as one
        disconnected(id, 0);
        return true;
    case cm_state::replied:
    case cm_state::accepted:
    case cm_state::connected:
        if (op != opcode::cm_disconnect_request)
            return false;
        id.state = cm_state::disconnect_received;
        queue_last_event(id, RDMA_CM_EVENT_DISCONNECTED, 0, false);
        return true;
    default:
        return false;
    }
}

int disconnect(cm_id &id)
{
    const lock_guard guard(lock());
    if (detail::is_datagram(id)) // never connected
        return detail::fail(EINVAL);
    switch (id.state) {
    case cm_state::replied:
    case cm_state::accepted:
    case cm_state::connected:
        if (id.link == nullptr)
            event_loop::get()->after(settings().response_timeout, [serial = id.serial] { give_up_disconnect(serial); });
        id.stop_searching();
        detail::modify_to_error(id);
        id.state = cm_state::disconnect_sent;
        detail::send_disconnect_request(id);
        return 0;
    case cm_state::disconnect_received:
        detail::modify_to_error(id);
        detail::send_disconnect_reply(id);
        close_path(id);
        return 0;
    case cm_state::disconnect_sent:
    case cm_state::closed:
        detail::modify_to_error(id);
        return 0;
    default:
        return detail::fail(EINVAL);
    }
}

} // namespace softrdma::cm
