// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>
#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.hpp"

// Runs Debian's etcd for tests.

inline constexpr int etcd_limit_s = 120;

inline sockaddr_in on_loopback(unsigned port)
{
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

inline unsigned free_port()
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at = on_loopback(0);
    socklen_t size = sizeof(at);
    assert_int_equal(bind(fd, reinterpret_cast<sockaddr *>(&at), size), 0);
    assert_int_equal(getsockname(fd, reinterpret_cast<sockaddr *>(&at), &size), 0);
    close(fd);
    return ntohs(at.sin_port);
}

// Starts a program whose output goes to a file.
inline pid_t run(const std::vector<std::string> &words, const std::string &log)
{
    std::vector<char *> arguments;
    for (const std::string &word : words)
        arguments.push_back(const_cast<char *>(word.c_str()));
    arguments.push_back(nullptr);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execvp(arguments[0], arguments.data());
        _exit(127);
    }
    return pid;
}

// A cluster with one member, on a fixed port.
class etcd
{
public:
    explicit etcd(bool tls = false) : tls_(tls), port_(free_port()), peer_port_(free_port())
    {
        if (tls) {
            const pid_t made =
                    run({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=rpma",
                                "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", file("key"), "-out", file("cert")},
                            file("log"));
            int status = -1;
            waitpid(made, &status, 0);
            assert_int_equal(status, 0);
        }
        start();
    }
    ~etcd() { kill(); }
    etcd(const etcd &) = delete;
    etcd &operator=(const etcd &) = delete;

    void start()
    {
        const std::string peers = "http://127.0.0.1:" + std::to_string(peer_port_);
        std::vector<std::string> words = {"etcd", "--data-dir", file("data"), "--listen-client-urls", url(),
                "--advertise-client-urls", url(), "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                "--initial-cluster", "default=" + peers};
        if (tls_)
            words.insert(words.end(), {"--cert-file", file("cert"), "--key-file", file("key"), "--client-cert-auth",
                                              "--trusted-ca-file", file("cert")});
        pid_ = run(words, file("log"));
        const sockaddr_in at = on_loopback(port_);
        for (int tries = 0;; ++tries) {
            const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            const bool there = connect(fd, reinterpret_cast<const sockaddr *>(&at), sizeof(at)) == 0;
            close(fd);
            if (there)
                return;
            if (tries == etcd_limit_s * 50 || waitpid(pid_, nullptr, WNOHANG) != 0)
                fail_msg("etcd did not start");
            usleep(20'000);
        }
    }
    void kill()
    {
        if (pid_ <= 0)
            return;
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    void stop() const
    {
        ::kill(pid_, SIGSTOP);
        assert_int_equal(waitpid(pid_, nullptr, WUNTRACED), pid_);
    }
    void go_on() const { ::kill(pid_, SIGCONT); }

    std::string url() const { return (tls_ ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_); }
    std::string file(const char *name) const { return where_.path + "/" + name; }
    // Calls the JSON gateway without a user.
    void post(const std::string &path, const std::string &body) const
    {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const sockaddr_in at = on_loopback(port_);
        assert_int_equal(connect(fd, reinterpret_cast<const sockaddr *>(&at), sizeof(at)), 0);
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
    const scratch where_;
    const bool tls_;
    const unsigned port_, peer_port_;
    pid_t pid_ = -1;
};
