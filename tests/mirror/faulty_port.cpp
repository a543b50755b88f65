// SPDX-License-Identifier: BSD-3-Clause
#include "faulty_port.hpp"

#include <arpa/inet.h>
#include <csignal>
#include <list>
#include <new>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

constexpr int second_ms = 1000;

sockaddr_in on_loopback(unsigned port)
{
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

int connect_to(unsigned port, int flags)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    const sockaddr_in at = on_loopback(port);
    if (connect(fd, reinterpret_cast<const sockaddr *>(&at), sizeof(at)) == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

struct behavior {
    fault kind;
    unsigned answers; // number of responses before the fault
    std::atomic<bool> *struck;
};

std::atomic<bool> *shared_flag()
{
    void *const memory =
            mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return new (memory) std::atomic<bool>(false);
}

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
            passages.push_back({accept(listener, nullptr, nullptr), connect_to(port, 0), 0, ""});
    }
}

} // namespace

faulty_port::faulty_port(fault kind, unsigned answers, const target &of) : struck_(shared_flag())
{
    const std::string real = of.place();
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at = on_loopback(0);
    socklen_t size = sizeof(at);
    assert_int_equal(bind(listener_, reinterpret_cast<sockaddr *>(&at), size), 0);
    assert_int_equal(getsockname(listener_, reinterpret_cast<sockaddr *>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
    if (kind == fault::refuses)
        return;
    assert_int_equal(listen(listener_, kind == fault::drops ? 0 : SOMAXCONN), 0);
    if (kind == fault::drops) {
        // Fills the queue: the kernel drops further connection requests.
        for (int i = 0; i < 8; ++i)
            waiting_.push_back(connect_to(port_, SOCK_NONBLOCK));
        return;
    }
    process_ = fork();
    assert_true(process_ >= 0);
    if (process_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(listener_, {kind, answers, struck_}, static_cast<unsigned>(std::stoul(real.substr(real.rfind(':') + 1))));
    }
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
    munmap(struck_, sizeof(*struck_));
}
