// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"
#include "base/socket_address.hpp"
#include "cm/cm.hpp"
#include "base/assert.hpp"
#include "base/process.hpp"

#include <cerrno>
#include <unistd.h>

namespace softrdma::cm
{

namespace
{

void describe(cm_event &event, cm_id &id, rdma_cm_event_type type, int status)
{
    static_cast<rdma_cm_event &>(event) = {};
    event.id = &id;
    event.event = type;
    event.status = status;
    event.counted_on = &id;
}

std::unique_ptr<cm_event> make_event(cm_id &id, rdma_cm_event_type type, int status)
{
    auto event = std::make_unique<cm_event>();
    describe(*event, id, type, status);
    return event;
}

void put(event_channel &channel, std::unique_ptr<cm_event> event) REQUIRES(lock())
{
    channel.queue_.push_back(std::move(event));
    channel.ready_->put();
}

bool is_destroyed(const event_channel &channel)
{
    const lock_guard guard(lock());
    return !channel.ready_.has_value();
}

void attach_data(cm_event &event, const private_data &data)
{
    // Both members of the union begin with the private data.
    static_assert(offsetof(rdma_conn_param, private_data_len) == offsetof(rdma_ud_param, private_data_len));
    event.data = data;
    event.param.conn.private_data = event.data.size > 0 ? event.data.bytes.data() : nullptr;
    event.param.conn.private_data_len = static_cast<std::uint8_t>(event.data.size);
}

// Performs the steps of librdmacm for the response to a connect.
void apply_reply(cm_event &event) REQUIRES(lock())
{
    cm_id &id = id_of(event.id);
    if (id.qp == nullptr) {
        event.event = RDMA_CM_EVENT_CONNECT_RESPONSE;
        return;
    }
    event.event = RDMA_CM_EVENT_ESTABLISHED;
    if (detail::modify_to_connected(id) == 0) {
        if (id.state == cm_state::replied)
            id.state = cm_state::connected;
        detail::send_ready(id);
        return;
    }
    const int error = errno;
    log::write(log::level::warn, "peer %s: connection rejected by this side: ibv_modify_qp: %s",
            text_of(id.route.addr.dst_storage).data(), strerror(error));
    event.event = RDMA_CM_EVENT_CONNECT_ERROR;
    event.status = -error;
    detail::modify_to_error(id);
    detail::send_rejection(id, no_reason);
    id.state = cm_state::closed;
}

} // namespace

void detail::queue_event(cm_id &id, rdma_cm_event_type type, int status, const private_data *data)
{
    auto event = make_event(id, type, status);
    if (data != nullptr)
        attach_data(*event, *data);
    if (type == RDMA_CM_EVENT_CONNECT_RESPONSE) {
        event->establishes = true;
        event->param.conn.responder_resources = id.remote.responder_resources;
        event->param.conn.initiator_depth = id.remote.initiator_depth;
        event->param.conn.flow_control = id.remote.flow_control;
        event->param.conn.rnr_retry_count = id.remote.rnr_retry_count;
        event->param.conn.srq = id.remote.srq;
        event->param.conn.qp_num = id.remote.qpn;
    }
    put(*id.events(), std::move(event));
}

constexpr auto check_interval = std::chrono::milliseconds(1);
constexpr unsigned max_checks = 100; // on a busy machine, a woken thread waits for some time slices of others

static bool has_unread_completions(const cm_id &id, bool flushed) REQUIRES(lock())
{
    const auto qp = id.local_qp.lock();
    return qp != nullptr && qp->has_unread_completions({id.events()->reader_.load(std::memory_order_relaxed), flushed});
}

static void deliver_last(cm_id &id, bool flushed, unsigned checks_left) noexcept REQUIRES(lock())
{
    try {
        if (checks_left > 0 && has_unread_completions(id, flushed))
            return event_loop::get()->after(check_interval, [serial = id.serial, flushed, checks_left] {
                const lock_guard guard(lock());
                if (cm_id *waiting = detail::find_id(serial); waiting != nullptr)
                    deliver_last(*waiting, flushed, checks_left - 1);
            });
    } catch (const std::bad_alloc &) { // the end must be reported
        log::write(log::level::error, "last event of a connection: not delayed: out of memory");
    }
    event_channel &channel = *id.events();
    channel.queue_.splice(channel.queue_.end(), id.last_event);
    channel.ready_->put();
}

void detail::queue_last_event(cm_id &id, rdma_cm_event_type type, int status, bool flushed, const private_data *data)
{
    SOFTRDMA_ASSERT(id.last_event.empty());
    if (id.spare_event.empty()) // over RoCE, the process of a peer can end after it has disconnected
        id.spare_event.push_back(make_event(id, type, status));
    id.last_event.splice(id.last_event.end(), id.spare_event);
    cm_event &event = *id.last_event.front();
    describe(event, id, type, status);
    if (data != nullptr)
        attach_data(event, *data);
    deliver_last(id, flushed, max_checks);
}

void detail::queue_established(cm_id &id, const ibv_ah_attr &peer, std::uint32_t qkey)
{
    auto event = make_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
    attach_data(*event, id.remote.data);
    event->param.ud.ah_attr = peer;
    event->param.ud.qp_num = id.remote.qpn;
    event->param.ud.qkey = qkey;
    put(*id.events(), std::move(event));
}

bool detail::queue_request(cm_id &listener, cm_id &child) noexcept
try {
    auto event = make_event(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    event->listen_id = &listener;
    event->counted_on = &listener;
    event->param.conn = child.request;
    attach_data(*event, child.remote.data);
    put(*listener.events(), std::move(event));
    ++listener.unseen;
    return true;
} catch (const std::bad_alloc &) {
    return false;
}

void detail::drop_events(cm_id &id)
{
    auto &queue = id.events()->queue_;
    for (auto at = queue.begin(); at != queue.end();) {
        if ((*at)->counted_on != &id && (*at)->id != &id) {
            ++at;
            continue;
        }
        const std::unique_ptr<cm_event> event = std::move(*at);
        at = queue.erase(at);
        id.events()->ready_->withdraw(1);
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && event->id != &id)
            discard(&id_of(event->id));
    }
}

// Destroys a channel. The last ones remain known: a thread (rping) that fetches an event waits forever, as on hardware.
void destroy_channel(event_channel *channel)
{
    struct destroyed_channels {
        std::unique_ptr<event_channel> oldest;
        event_channel *latest = nullptr;
        std::size_t count = 0;
    };
    constexpr std::size_t max_destroyed = 64;
    static constinit process::single<destroyed_channels> all_destroyed;
    auto &destroyed = all_destroyed.get();
    const lock_guard guard(lock());
    channel->ready_.reset();
    channel->queue_.clear();
    (destroyed.count == 0 ? destroyed.oldest : destroyed.latest->destroyed_next_).reset(channel);
    destroyed.latest = channel;
    if (++destroyed.count > max_destroyed) {
        destroyed.oldest = std::move(destroyed.oldest->destroyed_next_);
        --destroyed.count;
    }
}

static bool take_first(event_channel &channel, rdma_cm_event **out)
{
    const lock_guard guard(lock());
    if (channel.queue_.empty())
        return false;
    std::unique_ptr<cm_event> event = std::move(channel.queue_.front());
    channel.queue_.pop_front();
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        event->id->channel = event->listen_id->channel;
        detail::request_fetched(id_of(event->listen_id));
    }
    if (event->establishes)
        apply_reply(*event);
    ++event->counted_on->events_reported;
    *out = event.release();
    return true;
}

int get_event(event_channel &channel, rdma_cm_event **out)
{
    for (;;) {
        if (is_destroyed(channel))
            return pause(); // waits for a signal, with EINTR
        channel.reader_.store(pthread_self(), std::memory_order_relaxed);
        const int failed = channel.ready_->take(event_loop::get());
        channel.reader_.store(pthread_t{}, std::memory_order_relaxed);
        if (failed != 0)
            return -1;
        try { // excludes the wait itself, see abi::or_no_memory()
            if (take_first(channel, out))
                return 0;
        } catch (const std::bad_alloc &) {
            return detail::fail(ENOMEM);
        }
    }
}

void detail::acknowledge_stored(cm_id &id)
{
    const std::unique_ptr<cm_event> event(static_cast<cm_event *>(std::exchange(id.event, nullptr)));
    if (event == nullptr)
        return;
    ++event->counted_on->events_completed;
    acknowledged().notify_all();
}

int acknowledge(cm_event *event)
{
    if (event == nullptr)
        return detail::fail(EINVAL);
    const std::unique_ptr<cm_event> owned(event);
    const lock_guard guard(lock());
    ++event->counted_on->events_completed;
    acknowledged().notify_all();
    return 0;
}

} // namespace softrdma::cm
