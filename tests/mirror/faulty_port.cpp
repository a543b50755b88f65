// SPDX-License-Identifier: BSD-3-Clause
#include "faulty_port.hpp"

#include <csignal>
#include <list>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loopback.hpp"

namespace
{

constexpr int second_ms = 1000;

struct behavior {
    fault kind;
    unsigned answers; // number of responses before the fault
    std::atomic<bool> *struck;
};

struct passage {
    int client, server;
    unsigned answers = 0;
    std::string late; // bytes that a slow port has not sent yet
};

// Returns false if the connection has ended.
bool pass(passage &p, const pollfd &from_client, const pollfd &from_server, const behavior &how)
{
    char bytes[65536];
    if (from_client.revents != 0) {
        const ssize_t got = read(p.client, bytes, sizeof(bytes));
        if (got <= 0 || send(p.server, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL) != got)
            return false;
    }
    if (from_server.revents == 0)
        return true;
    const ssize_t got = read(p.server, bytes, sizeof(bytes));
    if (got <= 0)
        return false;
    if (p.answers++ < how.answers)
        return send(p.client, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL) == got;
    *how.struck = true;
    if (how.kind == fault::slow)
        p.late.append(bytes, static_cast<std::size_t>(got));
    return how.kind != fault::cuts;
}

[[noreturn]] void serve(int listener, const behavior &how, unsigned port)
{
    std::list<passage> passages;
    for (;;) {
        std::vector<pollfd> polled{{listener, POLLIN, 0}};
        for (const passage &p : passages) {
            polled.push_back({p.client, POLLIN, 0});
            polled.push_back({p.server, POLLIN, 0});
        }
        const bool timed_out = poll(polled.data(), polled.size(), second_ms) == 0;
        std::size_t at = 1;
        for (auto p = passages.begin(); p != passages.end(); at += 2) {
            if (timed_out && !p->late.empty()) {
                (void)send(p->client, p->late.data(), 1, MSG_NOSIGNAL);
                p->late.erase(0, 1);
            }
            if (pass(*p, polled[at], polled[at + 1], how)) {
                ++p;
                continue;
            }
            close(p->client);
            close(p->server);
            p = passages.erase(p);
        }
        if (polled[0].revents != 0)
            passages.push_back({accept(listener, nullptr, nullptr), connect_to_port(port, 0), 0, ""});
    }
}

} // namespace

faulty_port::faulty_port(fault kind, unsigned answers, const target &of)
{
    const std::string real = of.place();
    listener_ = bind_free_port(port_);
    if (kind == fault::refuses)
        return;
    assert_int_equal(listen(listener_, kind == fault::drops ? 0 : SOMAXCONN), 0);
    if (kind == fault::drops) {
        // Fills the queue: the kernel drops further connection requests.
        for (int i = 0; i < 8; ++i)
            waiting_.push_back(connect_to_port(port_, SOCK_NONBLOCK));
        return;
    }
    process_ = fork_child();
    if (process_ == 0)
        serve(listener_, {kind, answers, &*struck_},
                static_cast<unsigned>(std::stoul(real.substr(real.rfind(':') + 1))));
}

faulty_port::~faulty_port()
{
    if (process_ > 0) {
        kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
    }
    for (const int fd : waiting_)
        close(fd);
    close(listener_);
}
