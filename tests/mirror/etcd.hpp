// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "fixture.hpp"
#include "loopback.hpp"

// Runs Debian's etcd for tests.

inline constexpr int etcd_limit_s = 120;

// A cluster with one member, on a fixed port.
class etcd
{
public:
    explicit etcd(bool tls = false) : tls_(tls)
    {
        if (tls) {
            const int status =
                    run({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=rpma",
                                "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", file("key"), "-out", file("cert")})
                            .wait();
            assert_int_equal(status, 0);
        }
        for (int tries = 0; tries < 3; ++tries) { // another test can take a port that is free now
            port_ = free_port();
            peer_port_ = free_port();
            if (has_started())
                return;
        }
        fail_msg("etcd did not start");
    }

    void start()
    {
        if (!has_started())
            fail_msg("etcd did not start again");
    }
    void kill() { process_.kill(); }
    void stop() const { process_.stop(); }
    void resume() const { process_.resume(); }

    std::string url() const { return (tls_ ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_); }
    std::string file(const char *name) const { return where_.path + "/" + name; }
    // Calls the JSON gateway without a user.
    void post(const std::string &path, const std::string &body) const
    {
        const int fd = connect_to_port(port_);
        assert_true(fd >= 0);
        const std::string text =
                "POST /v3/" + path +
                " HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body;
        assert_int_equal(write(fd, text.data(), text.size()), text.size());
        char answer[16] = "";
        assert_true(read(fd, answer, sizeof(answer) - 1) > 12);
        close(fd);
        if (std::strncmp(answer, "HTTP/1.1 200", 12) != 0)
            fail_msg("etcd refused %s: %s", path.c_str(), answer);
    }
    // Returns the line for a set file.
    std::string line(const std::string &more) const { return "arbiter etcd " + url() + " " + more + "\n"; }

private:
    // Returns false if it exited, for example because another process has its port.
    bool has_started()
    {
        const std::string peers = "http://127.0.0.1:" + std::to_string(peer_port_);
        std::vector<std::string> words = {"etcd", "--data-dir", file("data"), "--listen-client-urls", url(),
                "--advertise-client-urls", url(), "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                "--initial-cluster", "default=" + peers};
        if (tls_)
            words.insert(words.end(), {"--cert-file", file("cert"), "--key-file", file("key"), "--client-cert-auth",
                                              "--trusted-ca-file", file("cert")});
        process_ = run(words);
        for (int tries = 0; tries < etcd_limit_s * 50 && !process_.has_ended(); ++tries) {
            const int fd = connect_to_port(port_);
            if (fd >= 0) {
                close(fd);
                return true;
            }
            usleep(20'000);
        }
        return false;
    }
    child_process run(const std::vector<std::string> &words) const
    {
        const int log = open(file("log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        child_process started(words, {.output = log, .errors = log});
        close(log);
        return started;
    }

    const scratch where_;
    const bool tls_;
    unsigned port_ = 0, peer_port_ = 0;
    child_process process_;
};
