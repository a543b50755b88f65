// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/fd_server.hpp"
#include "base/own_descriptors.hpp"
#include "base/process.hpp"
#include "base/config.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/fd_message.hpp"
#include "transport/shm/file_mapping.hpp"
#include "transport/shm/local_client.hpp"
#include "transport/shm/peer.hpp"
#include "transport/shm/policy.hpp"
#include "progress/listener.hpp"
#include "verbs/mr.hpp"

#include <sys/random.h>
#include <unistd.h>

namespace softrdma
{

namespace
{

constexpr unsigned max_requests = 8; // limit before other sockets are served

constinit process::single<pending_peers> without_a_request;

class fd_peer : public local_client
{
public:
    using local_client::local_client;
    poll_result ready(std::uint32_t events) override;

private:
    bool grant(const fd_request &w) const;
    bool pass_arena(const fd_request &w) const;
    bool pass_file(const fd_request &w) const;
};

poll_result fd_peer::ready(std::uint32_t)
{
    const lock_guard lock(mutex_);
    // Limits the requests per wakeup; the rest keeps the descriptor readable.
    for (unsigned requests = 0; requests < max_requests; ++requests) {
        fd_request w;
        received_fds unwanted;
        const reception r = receive(socket_.get(), w, unwanted);
        if (r == reception::message && on_message() && grant(w))
            continue;
        if (r != reception::nothing)
            drop();
        break;
    }
    return poll_result::progress;
}

bool fd_peer::grant(const fd_request &w) const
{
    if (w.token != arena::instance().token())
        return false;
    return w.kind == fd_request_kind::arena ? pass_arena(w) : w.kind == fd_request_kind::file && pass_file(w);
}

bool fd_peer::pass_arena(const fd_request &w) const
{
    const std::array<int, max_fds> fds{arena::instance().fd(), w.completion_fd};
    const bool rings = is_event_descriptor(w.completion_fd);
    return send_message(socket_.get(), fd_reply{.kind = w.kind}, std::span(fds).first(rings ? 2 : 1));
}

// Passes the file behind a region, if any. Closing it in the program's descriptor table would release POSIX locks.
bool fd_peer::pass_file(const fd_request &w) const
{
    const region_pin region = region_table::instance().pin(w.key);
    const bool is_file =
            region && (region->kind() == region_kind::shared_file || region->kind() == region_kind::direct_access);
    const auto begin = is_file ? reinterpret_cast<std::uintptr_t>(region->addr) : 0;
    const fd_reply nothing{.kind = w.kind, .key = w.key, .generation = w.generation};
    bool sent = false;
    const auto hand_over = [&] {
        const auto pid = static_cast<std::uint32_t>(getpid());
        const auto part = is_file ? file_part::find(pid, begin, region->length) : file_part{};
        const int fd = part.file.get();
        sent = send_message(socket_.get(),
                fd_reply{.kind = w.kind, .key = w.key, .generation = w.generation, .offset = part.offset},
                std::span(&fd, fd < 0 ? 0 : 1));
    };
    return (with_own_descriptors(hand_over) && sent) || send_message(socket_.get(), nothing);
}

struct open_fd_server {
    std::uint64_t number = 0; // 0 if it is closed
    std::shared_ptr<listener> listening;
};

open_fd_server *new_fd_server()
{
    auto created = std::make_unique<open_fd_server>();
    std::uint64_t number = 0;
    if (!arena::instance().shared() || getrandom(&number, sizeof(number), 0) != sizeof(number))
        return created.release();
    const fd_server_address address(number);
    unique_fd socket = open_local_socket();
    if (bind(socket.get(), address.get(), address.size) != 0)
        return created.release();
    created->listening = listener::open(socket.release(), SOMAXCONN, [](int accepted) {
        if (accepted < 0)
            return without_a_request.get().pause();
        return std::make_shared<fd_peer>(unique_fd(accepted), without_a_request.get())->enter();
    });
    created->number = created->listening == nullptr ? 0 : number;
    return created.release();
}

} // namespace

std::uint64_t fd_server_number()
{
    static constinit process::single<open_fd_server> fd_server;
    return fd_server.get(new_fd_server).number;
}

event_loop *start_event_loop()
{
    const process::creation lock;
    config::check();
    arena::instance(); // created while an allocation failure can still be reported
    event_loop *a = event_loop::start([] { arena::instance().hold_liveness_futex(); });
    if (a != nullptr)
        fd_server_number(); // opened now, so that connections need no descriptor that outlives them
    return a;
}

} // namespace softrdma
