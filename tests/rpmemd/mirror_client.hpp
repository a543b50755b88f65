// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>
#include <csignal>
#include <cstdio>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "client.hpp"

// A daemon that runs permanently, and control connections of writers, for tests of mirrored sets. Failures end the
// test.

using replica::mirror_promise;
using replica::request_type;
using replica::status;

inline constexpr std::uint64_t length = 8 << 20;
inline constexpr int limit_ms = 30'000;
inline const std::string key_text = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

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
        write("key", key_text + "\n", 0600);
    }
};

// rpmemd --listen. Its destructor kills it, like a crash, unless end() was called.
class standing_daemon
{
public:
    explicit standing_daemon(const place &at, const std::vector<std::string> &options = {})
    {
        const std::string key = at.path + "/key", log = at.path + "/log";
        std::vector<const char *> words = {"rpmemd", "--listen", "127.0.0.1:0", "--key-file", key.c_str(),
                "--poolset-dir", at.path.c_str(), "--log-file", log.c_str()};
        for (const std::string &option : options)
            words.push_back(option.c_str());
        words.push_back(nullptr);
        int output[2] = {-1, -1};
        assert_int_equal(pipe(output), 0);
        pid_ = fork();
        assert_true(pid_ >= 0);
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            dup2(output[1], STDOUT_FILENO);
            execv(getenv("RPMEMD"), const_cast<char **>(words.data()));
            _exit(127);
        }
        close(output[1]);
        FILE *const from = fdopen(output[0], "r");
        assert_int_equal(std::fscanf(from, "rpmemd: listening on 127.0.0.1 port %u", &port_), 1);
        std::fclose(from);
    }
    ~standing_daemon()
    {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
    }
    standing_daemon(const standing_daemon &) = delete;
    standing_daemon &operator=(const standing_daemon &) = delete;

    unsigned port() const { return port_; }
    void stop() const
    {
        kill(pid_, SIGSTOP);
        assert_int_equal(waitpid(pid_, nullptr, WUNTRACED), pid_);
    }
    void go_on() const { kill(pid_, SIGCONT); }
    int end()
    {
        int result = -1;
        kill(pid_, SIGTERM);
        assert_int_equal(waitpid(std::exchange(pid_, -1), &result, 0) > 0, 1);
        return result;
    }

private:
    pid_t pid_ = -1;
    unsigned port_ = 0;
};

// A connection to the daemon from one of the addresses of this machine.
inline replica::fd_owner connect_to(const standing_daemon &to, const char *from = "127.0.0.1")
{
    replica::fd_owner made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in own{}, name{};
    own.sin_family = name.sin_family = AF_INET;
    own.sin_addr.s_addr = inet_addr(from);
    assert_int_equal(bind(made.get(), reinterpret_cast<sockaddr *>(&own), sizeof(own)), 0);
    name.sin_port = htons(static_cast<std::uint16_t>(to.port()));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(made.get(), reinterpret_cast<sockaddr *>(&name), sizeof(name)), 0);
    return made;
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
    status commit(const mirror_promise &p, std::uint64_t version)
    {
        replica::request r = about(request_type::mirror_commit);
        r.mirror.record = {p.epoch, version, p.writer, 3, 3, replica::mirror_policy::safety, false, 0};
        return ask(r).status;
    }

private:
    replica::fd_owner connection_;
    replica::message_buffer buffer_;
    std::uint32_t number_ = 0;
};
