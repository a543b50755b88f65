// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>
#include <csignal>
#include <sys/socket.h>

#include "client.hpp"
#include "loopback.hpp"

// A daemon that runs permanently, and control connections of writers, for tests of mirrored sets. Failures end the
// test.

using replica::mirror_promise;
using replica::request_type;
using replica::status;

inline constexpr std::uint64_t length = 8 << 20;
inline constexpr int limit_ms = 30'000;

inline replica::mirror_key right_key()
{
    replica::mirror_key key{};
    for (std::size_t i = 0; i < key.size(); ++i)
        key[i] = static_cast<std::byte>(i);
    return key;
}

struct place : scratch {
    place()
    {
        write("a.set", "PMEMPOOLSET\nOPTION NOHDRS\n8M @p0\n");
        write("key", rpmemd_key, 0600);
    }
};

// rpmemd --listen. Its destructor kills it, like a crash, unless end() was called.
class standing_daemon
{
public:
    explicit standing_daemon(const place &at, const std::vector<std::string> &options = {})
        : process_(start_rpmemd("127.0.0.1:0", at.path, options, {}, port_))
    {
    }

    unsigned port() const { return port_; }
    void stop() const { process_.stop(); }
    void go_on() const { process_.resume(); }
    int end()
    {
        kill(process_.pid(), SIGTERM);
        return process_.wait();
    }

private:
    unsigned port_ = 0;
    child_process process_;
};

// A connection to the daemon from one of the addresses of this machine.
inline replica::fd_owner connect_to(const standing_daemon &to, const char *from = "127.0.0.1")
{
    replica::fd_owner created(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in own = loopback_address(0), name = loopback_address(to.port());
    own.sin_addr.s_addr = inet_addr(from);
    assert_int_equal(bind(created.get(), reinterpret_cast<sockaddr *>(&own), sizeof(own)), 0);
    assert_int_equal(connect(created.get(), reinterpret_cast<sockaddr *>(&name), sizeof(name)), 0);
    return created;
}

// The control connection of a writer.
class writer
{
public:
    explicit writer(const standing_daemon &to, bool proven = true) : connection_(connect_to(to))
    {
        replica::greeting greeting;
        assert_int_equal(
                receive(connection_.get(), replica::deadline(limit_ms), buffer_, greeting), replica::received::message);
        assert_true(greeting.error == 0 && greeting.features == replica::feature_mirror);
        if (proven)
            assert_true(prove(right_key()));
    }

    // Sends a request and closes the connection.
    void leave_with(replica::request r)
    {
        r.number = ++number_;
        assert_true(send_message(connection_.get(), replica::deadline(limit_ms), encode(r)));
        connection_.reset();
    }

    // Returns false if the daemon closed the connection.
    bool send(replica::request r, replica::answer &a)
    {
        r.number = ++number_;
        return send_message(connection_.get(), replica::deadline(limit_ms), encode(r)) &&
               receive(connection_.get(), replica::deadline(limit_ms), buffer_, a) == replica::received::message &&
               a.number == r.number;
    }

    bool prove(const replica::mirror_key &key)
    {
        replica::answer a;
        return prove(key, a);
    }
    bool prove(const replica::mirror_key &key, replica::answer &a)
    {
        replica::request r;
        r.type = request_type::mirror_challenge;
        if (!send(r, a))
            return false;
        r.type = request_type::mirror_prove;
        r.proof = replica::prove_key(key, a.challenge);
        return send(r, a);
    }

    replica::request about(request_type type, const mirror_promise &promise = {}) const
    {
        replica::request r;
        r.type = type;
        r.mirror.set.fill(std::byte{0x77});
        r.mirror.copy = 1;
        r.mirror.length = length;
        r.mirror.promise = promise;
        r.mirror.lanes = 1;
        r.mirror.devices = replica::device_software;
        r.mirror.set_name.assign("a.set");
        return r;
    }

    replica::answer ask(const replica::request &r)
    {
        replica::answer a;
        assert_true(send(r, a));
        return a;
    }
    replica::answer create() { return ask(about(request_type::mirror_create)); }
    replica::answer state() { return ask(about(request_type::mirror_status)); }
    status prepare(const mirror_promise &p) { return ask(about(request_type::mirror_prepare, p)).status; }
    replica::answer attach(const mirror_promise &p) { return ask(about(request_type::mirror_attach, p)); }
    status commit(const mirror_promise &p, std::uint64_t version, std::uint64_t point = 0)
    {
        replica::request r = about(request_type::mirror_commit);
        r.mirror.record = {p.epoch, version, p.writer, 3, 3, replica::mirror_policy::safety, false, 0, point};
        return ask(r).status;
    }
    // Requests an image, as a reader.
    replica::answer read(replica::read_kind kind)
    {
        replica::request r = about(request_type::mirror_cursor);
        r.mirror.offset = kind;
        return ask(r);
    }

private:
    replica::fd_owner connection_;
    replica::message_buffer buffer_;
    std::uint32_t number_ = 0;
};
