// SPDX-License-Identifier: BSD-3-Clause
#include "network.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <map>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

namespace
{

constexpr std::size_t max_packet_size = 65536;
constexpr std::size_t destination_at = 19; // last byte of the address

[[noreturn]] void cannot_run(const char *what)
{
    std::printf("skipped: %s: %s\n", what, std::strerror(errno));
    std::fflush(stdout);
    _exit(77);
}

void write_file(const char *path, const std::string &text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        cannot_run(path);
    close(fd);
}

// Makes a user other than root the root of a new user namespace.
void become_root()
{
    const uid_t user = geteuid();
    const gid_t group = getegid();
    if (user == 0 && unshare(CLONE_NEWNET) == 0)
        return;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        cannot_run("no network namespace can be made here");
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
    write_file("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
}

std::string address_of(unsigned number)
{
    return "10.77.0." + std::to_string(number + 1);
}

} // namespace

network::network(unsigned machines)
{
    become_root();
    links_ = static_cast<link *>(
            mmap(nullptr, sizeof(link) * machines, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    assert_true(links_ != MAP_FAILED);
    for (unsigned i = 0; i < machines; ++i) {
        if (unshare(CLONE_NEWNET) != 0)
            cannot_run("no network namespace can be made here");
        port p{open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK)};
        ifreq wanted{};
        std::strcpy(wanted.ifr_name, "cable");
        wanted.ifr_flags = IFF_TUN | IFF_NO_PI;
        if (p.name_space < 0 || p.packets < 0 || ioctl(p.packets, TUNSETIFF, &wanted) != 0)
            cannot_run("no tun device can be made here");
        const std::string set_up = "ip link set lo up && ip address add " + address_of(i) +
                                   "/24 dev cable && ip link set dev cable mtu 9000 up";
        if (std::system(set_up.c_str()) != 0)
            cannot_run("the command ip (iproute2) cannot set up a link");
        ports_.push_back(p);
    }
    switch_ = fork_child();
    if (switch_ == 0)
        forward();
}

network::~network()
{
    kill(switch_, SIGKILL);
    waitpid(switch_, nullptr, 0);
    for (const port &p : ports_) {
        close(p.name_space);
        close(p.packets);
    }
    munmap(links_, sizeof(link) * ports_.size());
}

machine network::at(unsigned number) const
{
    return {address_of(number), ports_[number].name_space};
}

void network::enter(unsigned number) const
{
    if (setns(ports_[number].name_space, CLONE_NEWNET) != 0)
        fail_msg("cannot go to a network namespace: %s", std::strerror(errno));
}

void network::forward() const
{
    struct under_way {
        unsigned from, to;
        std::string bytes;
    };
    std::multimap<std::int64_t, under_way> waiting; // ordered by arrival time
    std::vector<pollfd> polled;
    for (const port &p : ports_)
        polled.push_back({p.packets, POLLIN, 0});
    std::string buffer(max_packet_size, '\0');
    for (;;) {
        const std::int64_t first = waiting.empty() ? -1 : std::max<std::int64_t>(waiting.begin()->first - now_ms(), 0);
        poll(polled.data(), polled.size(), static_cast<int>(first));
        for (unsigned from = 0; from < polled.size(); ++from) {
            const ssize_t size =
                    (polled[from].revents & POLLIN) == 0 ? -1 : read(polled[from].fd, buffer.data(), buffer.size());
            if (size <= static_cast<ssize_t>(destination_at) || buffer[0] >> 4 != 4)
                continue;
            const unsigned to = static_cast<unsigned char>(buffer[destination_at]) - 1U;
            if (to < polled.size())
                waiting.emplace(now_ms() + links_[from].delay_ms + links_[to].delay_ms,
                        under_way{from, to, buffer.substr(0, static_cast<std::size_t>(size))});
        }
        for (; !waiting.empty() && waiting.begin()->first <= now_ms(); waiting.erase(waiting.begin())) {
            const under_way &p = waiting.begin()->second;
            // A packet that the device rejects is lost, as in a real network.
            if (!links_[p.from].cut && !links_[p.to].cut &&
                    write(ports_[p.to].packets, p.bytes.data(), p.bytes.size()) < 0)
                continue;
        }
    }
}
