// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/datagram_tx.hpp"
#include "base/copy.hpp"
#include "base/gid_table.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/unique_fd.hpp"
#include "progress/event_loop.hpp"
#include "transport/shm/datagram_ring.hpp"
#include "transport/shm/fd_message.hpp"
#include "transport/shm/peer.hpp"
#include "transport/shm/policy.hpp"

#include <sys/epoll.h>

namespace softrdma
{

constexpr std::size_t max_channels = 256;
// Delay before the next offer of a ring to a port, after a process at it rejected an offer or exited.
constexpr auto before_next_offer = std::chrono::seconds(1);

static std::uint16_t port_of_number(std::uint32_t qpn) noexcept
{
    return static_cast<std::uint16_t>(qpn >> 8);
}

// Channel to one process; the connection lasts as long as both have the ring.
class datagram_tx::channel : public event_handler, public std::enable_shared_from_this<channel>
{
public:
    channel(std::uint16_t to, unique_fd socket, ring_memory memory) noexcept
        : to_(to), socket_(std::move(socket)), ring_(std::move(memory))
    {
    }

    std::uint16_t to() const noexcept { return to_; }
    // Offers the ring to the listening process. A channel without an offer stays closed.
    void offer(std::uint16_t port, int file);
    poll_result ready(std::uint32_t events) override;
    void close() noexcept;

    bool is_open() const noexcept { return state_.load(std::memory_order_acquire) == state::open; }
    bool may_be_replaced() const noexcept
    {
        return state_.load(std::memory_order_acquire) == state::closed &&
               std::chrono::steady_clock::now() - created_ > before_next_offer;
    }
    bool leads_to(const network_address &address) noexcept; // whether it is one of this host
    outcome send(const datagram &d, const datagram_route &route, std::span<const iovec> payload);

private:
    enum class state {
        offered,
        open,
        closed
    };

    const std::uint16_t to_;
    const process::watched_fd socket_;
    unique_fd wake_; // eventfd that wakes the reader
    ring_writer ring_;
    network_address cached_{}; // address that is known to be of this host
    const std::chrono::steady_clock::time_point created_ = std::chrono::steady_clock::now();
    ordered_mutex mutex_{lock_level::sending};
    event_loop::watch_id watch_ GUARDED_BY(mutex_) = 0;
    std::atomic<state> state_{state::closed};
};

void datagram_tx::channel::offer(std::uint16_t port, int file)
{
    const lock_guard lock(mutex_);
    if (!ring_.is_mapped() || !send_message(socket_.get(), ring_offer{.port = port}, std::array{file}))
        return;
    watch_ = event_loop::get()->watch(socket_.get(), EPOLLIN, shared_from_this());
    if (watch_ != 0)
        state_.store(state::offered, std::memory_order_relaxed);
}

poll_result datagram_tx::channel::ready(std::uint32_t)
{
    const lock_guard lock(mutex_);
    ring_offer response;
    received_fds fds;
    const reception r = receive(socket_.get(), response, fds);
    if (r == reception::nothing)
        return poll_result::idle;
    const bool taken = r == reception::message && state_.load(std::memory_order_relaxed) == state::offered &&
                       response.version == ring_offer{}.version && is_event_descriptor(fds[0].get());
    if (taken) {
        wake_ = std::move(fds[0]);
        state_.store(state::open, std::memory_order_release);
    } else {
        state_.store(state::closed, std::memory_order_release);
        event_loop::get()->unwatch(watch_);
    }
    return poll_result::progress;
}

void datagram_tx::channel::close() noexcept
{
    const lock_guard lock(mutex_);
    state_.store(state::closed, std::memory_order_release);
    event_loop::get()->unwatch(watch_); // no effect if it is 0
}

bool datagram_tx::channel::leads_to(const network_address &address) noexcept
{
    if (address == cached_)
        return true;
    if (!is_own_address(address))
        return false;
    cached_ = address;
    return true;
}

datagram_tx::outcome datagram_tx::channel::send(
        const datagram &d, const datagram_route &route, std::span<const iovec> payload)
{
    const auto result = ring_.put(d, route, payload, total_length(payload));
    if (result == ring_writer::outcome::sent_to_sleeper && takes_event(wake_.get()))
        put_event(wake_.get());
    else if (result == ring_writer::outcome::full)
        log::write(log::level::info, "datagram for queue pair %u: dropped: ring full", d.dest_qpn);
    return result == ring_writer::outcome::fault ? outcome::fault : outcome::done;
}

datagram_tx::~datagram_tx()
{
    for (const auto &[port, c] : channels_)
        c->close();
}

datagram_tx::outcome datagram_tx::send(
        const datagram &d, const datagram_route &route, std::span<const iovec> payload) noexcept
{
    const lock_guard lock(mutex_);
    channel *c = recent_;
    const std::uint16_t to = port_of_number(d.dest_qpn);
    if (c == nullptr || c->to() != to || !c->is_open() || !c->leads_to(route.destination)) {
        try {
            c = find(to, route);
        } catch (const std::bad_alloc &) {
            return outcome::elsewhere;
        }
    }
    if (c == nullptr || !c->is_open() || !c->leads_to(route.destination))
        return outcome::elsewhere;
    recent_ = c;
    return c->send(d, route, payload);
}

datagram_tx::channel *datagram_tx::find(std::uint16_t to, const datagram_route &route)
{
    if (!is_own_address(route.destination))
        return nullptr;
    const auto known = channels_.find(to);
    if (known != channels_.end() && !known->second->may_be_replaced())
        return known->second.get();
    recent_ = nullptr;
    std::erase_if(channels_, [](const auto &entry) { return entry.second->may_be_replaced(); });
    return channels_.size() < max_channels ? open(to) : nullptr;
}

datagram_tx::channel *datagram_tx::open(std::uint16_t to)
{
    unique_fd socket = open_local_socket();
    const auto address = fd_server_address::of_datagrams(to);
    const bool listens = policy() != transport_word::tcp && socket.get() >= 0 &&
                         connect(socket.get(), address.get(), address.size) == 0 &&
                         process_of_own_user(socket.get()).has_value();
    const unique_fd file = listens ? create_ring_file() : unique_fd();
    auto created = std::make_shared<channel>(to, std::move(socket), map_ring(file.get()));
    channels_.insert_or_assign(to, created);
    created->offer(port_, file.get());
    return created.get();
}

} // namespace softrdma
