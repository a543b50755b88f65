// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/fd_server.hpp"
#include "base/own_descriptors.hpp"
#include "base/process.hpp"
#include "base/config.hpp"
#include "base/settings.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/fd_message.hpp"
#include "transport/shm/file_mapping.hpp"
#include "transport/shm/peer.hpp"
#include "transport/shm/policy.hpp"
#include "progress/listener.hpp"
#include "verbs/mr.hpp"

#include <atomic>
#include <deque>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

namespace softrdma::net
{

namespace
{

constexpr unsigned most_requests = 8;    // before other sockets have their turn
constexpr std::size_t most_silent = 128; // peers that have asked for nothing yet: each holds a descriptor

// Somebody who has come in. Whoever breaks the rules is sent away.
class fd_peer : public event_handler, public std::enable_shared_from_this<fd_peer>
{
public:
    explicit fd_peer(int socket) noexcept : socket_(socket) {}
    ~fd_peer() override
    {
        if (birth_.is_here())
            close(socket_);
    }

    void enter();
    void leave();
    bool has_asked() const noexcept { return has_asked_; }
    finding ready(std::uint32_t events) override;

private:
    bool grant(const fd_request &w) const;
    bool hand_over_arena(const fd_request &w) const;
    bool hand_over_file(const fd_request &w) const;

    const int socket_;
    const process::birth birth_;
    ordered_mutex mutex_{lock_level::requests};
    event_loop::watch_id watch_ GUARDED_BY(mutex_) = 0;
    std::atomic<bool> has_asked_ = false;
};

// The peers that have asked for nothing yet, the oldest first.
struct silent_peers {
    ordered_mutex mutex{lock_level::requests};
    std::deque<std::weak_ptr<fd_peer>> all GUARDED_BY(mutex);

    // Who has to leave for that one, or NULL.
    std::shared_ptr<fd_peer> add(const std::shared_ptr<fd_peer> &peer)
    {
        const lock_guard guard(mutex);
        std::erase_if(all, [](const std::weak_ptr<fd_peer> &weak) {
            const auto other = weak.lock();
            return other == nullptr || other->has_asked();
        });
        all.push_back(peer);
        if (all.size() <= most_silent)
            return nullptr;
        auto oldest = all.front().lock();
        all.pop_front();
        return oldest;
    }
};

constinit process::single<silent_peers> the_silent_peers;

void fd_peer::enter()
{
    const lock_guard lock(mutex_);
    if (!process_of_own_user(socket_))
        return;
    watch_ = event_loop::get()->watch(socket_, EPOLLIN, shared_from_this());
    // An unknown peer that never asks for anything must not keep a descriptor.
    event_loop::get()->after(settings().response_timeout, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
            const lock_guard relock(self->mutex_);
            if (!self->has_asked_)
                event_loop::get()->unwatch(self->watch_);
        }
    });
}

void fd_peer::leave()
{
    const lock_guard lock(mutex_);
    event_loop::get()->unwatch(watch_);
}

finding fd_peer::ready(std::uint32_t)
{
    const lock_guard lock(mutex_);
    // What is left keeps the socket ready: a peer that asks again and again must not keep this thread.
    for (unsigned requests = 0; requests < most_requests; ++requests) {
        fd_request w;
        const reception r = receive(socket_, w);
        if (r == reception::message && grant(w)) {
            has_asked_ = true;
            continue;
        }
        if (r != reception::nothing)
            event_loop::get()->unwatch(watch_);
        break;
    }
    return finding::something;
}

bool fd_peer::grant(const fd_request &w) const
{
    if (w.token != local::arena::instance().token())
        return false;
    return w.kind == fd_request_kind::arena ? hand_over_arena(w) : w.kind == fd_request_kind::file && hand_over_file(w);
}

bool fd_peer::hand_over_arena(const fd_request &w) const
{
    const std::array<int, max_fds> given{local::arena::instance().fd(), w.completion_fd};
    const bool rings = local::is_event_descriptor(w.completion_fd);
    return send_message(socket_, {.kind = w.kind}, std::span(given).first(rings ? 2 : 1));
}

// If there is none, that is said. The program may have locks on the file, which closing it would drop.
bool fd_peer::hand_over_file(const fd_request &w) const
{
    const region_pin region = region_table::instance().pin(w.key);
    const bool is_file = region && (region->kind() == local::region_kind::shared_file ||
                                           region->kind() == local::region_kind::direct_access);
    const auto begin = is_file ? reinterpret_cast<std::uintptr_t>(region->addr) : 0;
    const fd_reply nothing{.kind = w.kind, .key = w.key, .generation = w.generation};
    bool sent = false;
    const auto hand_over = [&] {
        const auto own = static_cast<std::uint32_t>(getpid());
        const auto part = is_file ? local::file_part::find(own, begin, region->length) : local::file_part{};
        const int given = part.file.get();
        sent = send_message(socket_, {.kind = w.kind, .key = w.key, .generation = w.generation, .offset = part.offset},
                std::span(&given, given < 0 ? 0 : 1));
    };
    return (with_own_descriptors(hand_over) && sent) || send_message(socket_, nothing, {});
}

struct open_fd_server {
    std::uint64_t number = 0; // 0: it is closed
    std::shared_ptr<listener> listening;
};

open_fd_server *open()
{
    auto made = std::make_unique<open_fd_server>();
    std::uint64_t number = 0;
    if (!local::arena::instance().shared() || getrandom(&number, sizeof(number), 0) != sizeof(number))
        return made.release();
    const fd_server_address address(number);
    local::unique_fd socket = open_local_socket();
    if (bind(socket.get(), address.get(), address.size) != 0)
        return made.release();
    made->listening = listener::open(socket.release(), SOMAXCONN, [](int accepted) {
        local::unique_fd taken(accepted);
        const auto client = std::make_shared<fd_peer>(accepted);
        static_cast<void>(taken.release());
        client->enter(); // of other users it keeps none
        const auto oldest = the_silent_peers.get().add(client);
        if (oldest != nullptr)
            oldest->leave();
        // Whoever comes in a crowd has the time to ask before it would have to leave.
        return std::chrono::milliseconds(oldest != nullptr ? 5 : 0);
    });
    made->number = made->listening == nullptr ? 0 : number;
    return made.release();
}

} // namespace

std::uint64_t fd_server_number()
{
    static constinit process::single<open_fd_server> fd_server;
    return fd_server.get(open).number;
}

event_loop *start_event_loop()
{
    const process::creation lock;
    config::check();
    local::arena::instance(); // while there is somebody to tell that there is no memory
    event_loop *a = event_loop::start([] { local::arena::instance().hold_liveness_futex(); });
    if (a != nullptr)
        fd_server_number(); // now, so that connections need no descriptor which outlives them
    return a;
}

} // namespace softrdma::net
