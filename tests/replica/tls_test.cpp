// SPDX-License-Identifier: BSD-3-Clause
#include "channel/tls_stream.hpp"

#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "cmocka_headers.hpp"

using namespace replica;

namespace
{

constexpr int limit_ms = 30'000;
constexpr const char *key = "writer:000102030405060708090a0b0c0d0e0f";

struct ends {
    ends()
    {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        client.reset(pair[0]);
        server.reset(pair[1]);
    }
    fd_owner client, server;
};

struct connection {
    explicit connection(const std::string &of_client, const std::string &of_server = key)
        : keys(parse_keys(of_server)), client(std::move(sockets.client), parse_keys(of_client)),
          server(tls_stream::accept(std::move(sockets.server), keys))
    {
        handshake result = handshake::pending;
        std::thread other([&] { result = server->shake_hands(deadline(limit_ms)); });
        const handshake own = client.shake_hands(deadline(limit_ms));
        other.join();
        is_open = own == handshake::complete && result == handshake::complete;
    }

    ends sockets;
    const tls_keys keys;
    tls_stream client;
    std::unique_ptr<tls_stream> server;
    bool is_open = false;
};

std::string received_from(byte_stream &from, std::size_t size)
{
    std::string bytes(size, '\0');
    for (std::size_t done = 0; done < size;) {
        assert_true(from.has_pending() || wait_for(from.fd(), POLLIN, deadline(limit_ms)));
        const ssize_t got = from.read(std::as_writable_bytes(std::span(bytes)).subspan(done));
        assert_true(got > 0 || (got < 0 && errno == EAGAIN));
        done += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    return bytes;
}

// Messages are larger than a record of TLS and than the buffer of the socket, and both directions are used at once.
TEST(messages_arrive_in_both_directions)
{
    connection c(key, "other:" + std::string(32, '1') + "\n" + key);
    assert_true(c.is_open && c.server->identity() == "writer");
    const std::string there(1 << 20, 't'), back(1 << 20, 'b');
    std::thread other([&] {
        std::thread writing([&] { assert_true(send_message(*c.server, deadline(limit_ms), back)); });
        assert_true(received_from(*c.server, there.size()) == there);
        writing.join();
    });
    std::thread writing([&] { assert_true(send_message(c.client, deadline(limit_ms), there)); });
    assert_true(received_from(c.client, back.size()) == back);
    writing.join();
    other.join();
    std::byte next{};
    assert_int_equal(shutdown(c.server->fd(), SHUT_RDWR), 0);
    assert_int_equal(c.client.read({&next, 1}), 0);
}

TEST(both_sides_name_the_reason)
{
    const connection unknown("reader:000102030405060708090a0b0c0d0e0f"), wrong("writer:" + std::string(32, '1')),
            hostile("a\\b" + std::string(100, 'x') + ":000102030405060708090a0b0c0d0e0f");
    assert_false(unknown.is_open || wrong.is_open || hostile.is_open);
    assert_string_equal(unknown.client.failure().c_str(),
            "refused: unknown identity 'reader' (add its line to the key file there)");
    assert_string_equal(unknown.server->failure().c_str(), "unknown identity 'reader'");
    assert_string_equal(wrong.client.failure().c_str(),
            "refused: wrong key of identity 'writer' (use the line of the key file there)");
    assert_string_equal(wrong.server->failure().c_str(), "wrong key of identity 'writer'");
    assert_int_equal(hostile.server->failure().size(), std::string("unknown identity ''").size() + 64);
}

TEST(a_peer_without_tls_is_reported)
{
    ends e;
    tls_stream client(std::move(e.client), parse_keys(key));
    const std::string greeting = encode(replica::greeting());
    assert_int_equal(write(e.server.get(), greeting.data(), greeting.size()), greeting.size());
    assert_int_equal(client.shake_hands(deadline(limit_ms)), handshake::failed);
    assert_string_equal(
            client.failure().c_str(), "does not use TLS (is rpmemd --listen of this version running there?)");
}

// Records that the server ignores must not occupy it.
TEST(a_handshake_has_a_limit)
{
    ends e;
    const tls_keys keys = parse_keys(key);
    const auto server = tls_stream::accept(std::move(e.server), keys);
    const std::string ignored("\x14\x03\x03\x00\x01\x01", 6);
    handshake result = handshake::pending;
    for (int i = 0; i < 100'000 && result == handshake::pending; ++i) {
        assert_int_equal(write(e.client.get(), ignored.data(), ignored.size()), ignored.size());
        result = server->shake_hands();
    }
    assert_true(result == handshake::ended || result == handshake::failed);
}

} // namespace
