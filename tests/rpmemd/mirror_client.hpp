// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>
#include <csignal>
#include <sys/socket.h>

#include "channel/tls_stream.hpp"
#include "client.hpp"
#include "loopback.hpp"

// A daemon that runs permanently, and control connections of writers, for tests of mirrored sets. Failures end the
// test.

using replica::mirror_promise;
using kind = replica::request; // names the bodies of requests
using replica::status;

inline constexpr std::uint64_t length = 8 << 20;
inline constexpr int limit_ms = 30'000;

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
    void resume() const { process_.resume(); }
    // Makes the daemon read its files again, and waits until it has logged this.
    void reload(const place &at) const
    {
        const std::size_t before = reloads(at);
        kill(process_.pid(), SIGHUP);
        for (int i = 0; i < limit_ms && reloads(at) == before; ++i)
            usleep(1000);
        assert_true(reloads(at) > before);
    }
    int end()
    {
        kill(process_.pid(), SIGTERM);
        return process_.wait();
    }

private:
    static std::size_t reloads(const place &at)
    {
        const std::string log = at.read("log");
        std::size_t count = 0;
        for (std::size_t i = log.find("SIGHUP: "); i != std::string::npos; i = log.find("SIGHUP: ", i + 1))
            ++count;
        return count;
    }

    unsigned port_ = 0;
    child_process process_;
};

// Fixture of tests: a daemon in its directory.
struct running_daemon {
    explicit running_daemon(const std::vector<std::string> &options = {}) : daemon(at, options) {}
    const place at;
    standing_daemon daemon;
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
    explicit writer(const standing_daemon &to, const std::string &key = rpmemd_key) : writer(connect_to(to), key) {}
    explicit writer(replica::fd_owner connection, const std::string &key = rpmemd_key)
        : connection_(std::move(connection), replica::parse_keys(key))
    {
        if (connection_.shake_hands(replica::deadline(limit_ms)) != replica::handshake::complete)
            failure_ = connection_.failure();
        else if (receive(connection_, replica::deadline(limit_ms), greeting_) != replica::received::message)
            failure_ = "no greeting";
        else
            failure_ = greeting_.text();
    }

    // Why the daemon does not serve this client; empty if it does.
    const std::string &failure() const { return failure_; }

    // Sends a request and closes the connection.
    void leave_with(replica::request r)
    {
        r.set_number(++number_);
        assert_true(send_message(connection_, replica::deadline(limit_ms), replica::encode(r)));
        shutdown(connection_.fd(), SHUT_RDWR);
    }

    // Returns false if the daemon closed the connection.
    bool send(replica::request r, replica::response &a)
    {
        r.set_number(++number_);
        return send_message(connection_, replica::deadline(limit_ms), replica::encode(r)) &&
               receive(connection_, replica::deadline(limit_ms), a) == replica::received::message &&
               replica::answers(a, r.number(), r.body_case());
    }

    // Returns a request of this kind, with the offset 0 and an empty record.
    static replica::request about(kind::BodyCase body, const mirror_promise &promise = {})
    {
        replica::request r;
        r.set_set(std::string(sizeof(replica::set_uuid), '\x77'));
        r.set_set_name("a.set");
        to_wire(promise, *r.mutable_promise());
        switch (body) {
        case kind::kCreateCopy:
            r.mutable_create_copy()->set_copy(1);
            r.mutable_create_copy()->set_length(length);
            break;
        case kind::kGetState:
            r.mutable_get_state();
            break;
        case kind::kPrepare:
            r.mutable_prepare();
            break;
        case kind::kAttachReader:
            r.mutable_attach_reader()->set_devices(replica::device_software);
            break;
        case kind::kAttach:
            r.mutable_attach()->set_lanes(1);
            r.mutable_attach()->set_devices(replica::device_software);
            break;
        default:
            break;
        }
        return r;
    }
    static replica::request cursor_at(std::uint64_t offset, const mirror_promise &promise)
    {
        replica::request r = about(kind::kCursor, promise);
        r.mutable_cursor()->set_offset(offset);
        return r;
    }

    static replica::request resize_to(std::uint64_t bytes, bool reserve, const mirror_promise &promise)
    {
        replica::request r = about(kind::kResize, promise);
        r.mutable_resize()->set_length(bytes);
        r.mutable_resize()->set_reserve(reserve);
        return r;
    }

    replica::response ask(const replica::request &r)
    {
        replica::response a;
        assert_true(send(r, a));
        return a;
    }
    replica::response create() { return ask(about(kind::kCreateCopy)); }
    replica::response state() { return ask(about(kind::kGetState)); }
    status prepare(const mirror_promise &p) { return status_of(ask(about(kind::kPrepare, p))); }
    replica::response attach(const mirror_promise &p) { return ask(about(kind::kAttach, p)); }
    status commit(const mirror_promise &p, std::uint64_t version, std::uint64_t point = 0, bool closed = false)
    {
        replica::request r = about(kind::kCommit);
        to_wire(replica::mirror_record{p.epoch, version, p.writer, 3, 3, replica::mirror_policy::safety, closed, 0,
                        point},
                *r.mutable_commit()->mutable_record());
        return status_of(ask(r));
    }
    // Requests an image, as a reader.
    replica::response read(bool any_time)
    {
        replica::request r = about(kind::kRead);
        r.mutable_read()->set_any_time(any_time);
        return ask(r);
    }
    replica::response attach_reader() { return ask(about(kind::kAttachReader)); }

private:
    replica::tls_stream connection_;
    replica::greeting greeting_;
    std::string failure_;
    std::uint32_t number_ = 0;
};
