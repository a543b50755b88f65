// SPDX-License-Identifier: BSD-3-Clause
// Targets and etcd by host name, while the name server is silent: every call ends within its deadline and uses the
// target that is configured by address.
#include "network.hpp"

#include <arpa/inet.h>
#include <chrono>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace
{

constexpr const char *times = "timeouts 1000 3000\n";
constexpr const char *host_name = "silent.example";
// The resolver waits for 60 s.
constexpr const char *resolver_options = "nameserver 127.0.0.1\noptions timeout:30 attempts:2\n";
constexpr std::chrono::seconds limit{20};

// Ends the test with a failure if it was alive for longer than the limit.
class timer
{
public:
    ~timer() { assert_true(std::chrono::steady_clock::now() - started_ < limit); }

private:
    const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// The only name server of this machine. It is silent at first.
class name_server
{
public:
    name_server()
    {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_port = htons(53);
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_int_equal(bind(socket_, reinterpret_cast<sockaddr *>(&at), sizeof(at)), 0);
    }
    // Starts to answer all requests, also the earlier ones: the address of each name is 127.0.0.1.
    void answer()
    {
        std::thread([this] {
            char text[512];
            sockaddr_in client{};
            for (;;) {
                socklen_t size = sizeof(client);
                auto *const from = reinterpret_cast<sockaddr *>(&client);
                const ssize_t got = recvfrom(socket_, text, sizeof(text), 0, from, &size);
                if (got > 0) {
                    const std::string response = response_to({text, static_cast<std::size_t>(got)});
                    sendto(socket_, response.data(), response.size(), 0, from, size);
                }
            }
        }).detach();
    }

private:
    static std::string response_to(const std::string &request)
    {
        constexpr std::size_t header = 12;
        const std::size_t type_at = request.find('\0', header) + 1; // after the name
        const bool asks_for_ipv4 = request.substr(type_at, 2) == std::string("\0\1", 2);
        std::string counts("\0\1\0\0\0\0\0\0", 8); // one question
        counts[3] = asks_for_ipv4 ? 1 : 0;
        std::string response =
                request.substr(0, 2) + "\x81\x80" + counts + request.substr(header, type_at + 4 - header);
        // Name as in the question, type A, class IN, lifetime 0.
        if (asks_for_ipv4)
            response += std::string("\xc0\x0c\0\1\0\1\0\0\0\0\0\4\x7f\0\0\1", 16);
        return response;
    }

    const int socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

name_server *server;

// Replaces a file of the system for this process and its children.
void replace_file(const scratch &in, const char *path, const char *text)
{
    const std::string name = strrchr(path, '/') + 1;
    in.write(name, text);
    assert_int_equal(chmod((in.path + "/" + name).c_str(), 0644), 0);
    assert_int_equal(mount((in.path + "/" + name).c_str(), path, nullptr, MS_BIND, nullptr), 0);
}

int isolate(void **)
{
    static const network machines(1);
    machines.enter(0);
    assert_int_equal(unshare(CLONE_NEWNS), 0);
    assert_int_equal(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    static const scratch files;
    replace_file(files, "/etc/resolv.conf", resolver_options);
    replace_file(files, "/etc/nsswitch.conf", "hosts: dns\n");
    static name_server silent;
    server = &silent;
    return 0;
}

// A set with two targets. The second one is configured by name after its creation.
struct named_set {
    named_set() { assert_ok(rpma_mirror_create(here.cfg({&a, &b}, times).get())); }
    cfg_ptr cfg(const std::string &more = times) const
    {
        return here.cfg({&a}, more + "target 2 " + name() + " set\n");
    }
    // "HOST:PORT" of the second target.
    std::string name() const { return host_name + b.place().substr(b.place().find(':')); }

    const target a;
    target b;
    const host here;
};

// A set that has evicted its second target.
struct evicted_set : named_set {
    evicted_set()
    {
        opened m(here.cfg({&a, &b}, times).get());
        b.kill();
        m.put(0, "after!");
        m.close();
        b.start();
    }
};

// The message names the target, what happened, and the time.
void check_message(const std::string &name)
{
    const std::string text = rpma_mirror_error_message();
    const std::string what = "target " + name + ": host name not resolved within ";
    const std::size_t at = text.find(what);
    if (at == std::string::npos || std::atoi(text.c_str() + at + what.size()) <= 0)
        fail_msg("the message does not describe the timeout: %s", text.c_str());
}

FIXTURE_TEST(evicted_set, a_name_delays_no_other_target)
{
    const timer t;
    opened m(cfg().get());
    m.put(0, "opened");
    assert_true(a.bytes(0, 6) == "opened");
    assert_int_equal(m.state().in_sync, 3);
    m.close();
    assert_ok(rpma_mirror_fence(cfg().get(), 0, nullptr));
}

FIXTURE_TEST(named_set, the_message_names_the_host)
{
    const timer t;
    assert_int_equal(map_code(cfg().get()), RPMA_MIRROR_E_INCOMPLETE);
    check_message(name());
    assert_int_equal(map_code(cfg().get(), RPMA_MIRROR_F_FORCE), 0);
}

FIXTURE_TEST(named_set, the_state_is_reported)
{
    const timer t;
    const auto seen = inspected(cfg().get());
    assert_int_equal(seen->copies[1].state, RPMA_MIRROR_COPY_IN_SYNC);
    assert_int_equal(seen->copies[2].state, RPMA_MIRROR_COPY_OFFLINE);
    assert_int_equal(seen->copies[2].last_error, RPMA_MIRROR_E_TIMEOUT);
}

TEST(a_creation_fails)
{
    const target a;
    const host h;
    const timer t;
    const std::string name = std::string(host_name) + ":7000";
    assert_int_equal(
            rpma_mirror_create(h.cfg({&a}, times + ("target 2 " + name + " set\n")).get()), RPMA_MIRROR_E_TIMEOUT);
    check_message(name);
}

// A pending lookup of the background resync does not delay the end, whatever the deadline is.
FIXTURE_TEST(evicted_set, an_end_cancels_a_lookup)
{
    opened m(cfg("timeouts 60000 60000\nbackground-resync on\n").get());
    m.put(0, "opened");
    std::this_thread::sleep_for(std::chrono::seconds(1)); // the first attempt begins after at most 500 ms
    const timer t;
    m.close();
}

FIXTURE_TEST(named_set, an_arbiter_by_name_fails_in_time)
{
    const timer t;
    const std::string arbiter = "arbiter etcd http://" + std::string(host_name) + ":2379\n";
    assert_int_equal(map_code(cfg(times + arbiter).get()), RPMA_MIRROR_E_ARBITER);
}

FIXTURE_TEST(evicted_set, a_name_is_used_when_it_is_resolved)
{
    opened m(cfg().get());
    assert_int_equal(rpma_mirror_resync(m.get(), 2, nullptr), RPMA_MIRROR_E_TIMEOUT);
    check_message(name());
    server->answer();
    assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
    m.put(0, "synced");
    assert_true(b.bytes(0, 6) == "synced");
    m.close();
}

GROUP_FIXTURE(isolate, nullptr)

} // namespace
