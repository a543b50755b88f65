// SPDX-License-Identifier: BSD-3-Clause
#include "writer.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "mirror_admin.hpp"

namespace mirror_tool
{

namespace
{

const std::string program = "program that has the set open: ";

[[noreturn]] void fail(const std::string &line)
{
    throw no_response(program + line, exit_failed);
}

// Connection to the socket of the program. Every wait has a limit.
class connection
{
public:
    explicit connection(int max_silence_s)
        : max_silence_s_(max_silence_s), fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))
    {
        const timeval limit{max_silence_s, 0};
        if (fd_ < 0 || setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0 ||
                setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0)
            fail(fmt::format("cannot create a socket: {}", std::strerror(errno)));
    }
    ~connection() { close(fd_); }
    connection(const connection &) = delete;
    connection &operator=(const connection &) = delete;

    // Returns false if no program listens: the socket does not exist, or the program has ended.
    bool open(const std::string &path)
    {
        // The path through /proc avoids the limit of 107 bytes.
        const int found = ::open(path.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string text = "/proc/self/fd/" + std::to_string(found);
        text.copy(address.sun_path, sizeof(address.sun_path) - 1);
        const bool connected =
                found >= 0 && connect(fd_, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0;
        const int error = errno;
        if (found >= 0)
            close(found);
        if (!connected && (error == ENOENT || error == ENOTDIR || error == ECONNREFUSED || error == ENOTSOCK))
            return false;
        if (!connected && error == EAGAIN)
            fail_unresponsive();
        if (!connected)
            throw failure(fmt::format("{}cannot connect to {}: {}{}", program, path, std::strerror(error),
                                  error == EACCES || error == EPERM ? " (use the user of the program)" : ""),
                    exit_failed);
        // If the program has exited, a child that it forked can keep its socket open.
        return peer() <= 0 || kill(peer(), 0) == 0 || errno != ESRCH;
    }

    void send_line(const std::string &line) const
    {
        // A program that rejects the client sends the reason, and closes the connection.
        if (send(fd_, line.data(), line.size(), MSG_NOSIGNAL) < 0 && errno == EAGAIN)
            fail_unresponsive();
    }

    std::string receive_line()
    {
        for (;;) {
            if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
                std::string line = received_.substr(0, end);
                received_.erase(0, end + 1);
                return line;
            }
            char bytes[4096];
            const ssize_t count = recv(fd_, bytes, sizeof(bytes), 0);
            if (count < 0 && errno == EINTR) {
                check_canceled();
                continue;
            }
            if (count < 0 && errno == EAGAIN)
                fail_unresponsive();
            if (count <= 0)
                fail("closed the connection (it closed the set, or was killed)");
            received_.append(bytes, static_cast<std::size_t>(count));
        }
    }

    static void check_canceled()
    {
        if (progress::is_canceled())
            throw failure("canceled", exit_failed, RPMA_MIRROR_E_CANCELED);
    }

    // Returns the process that listens, or 0 if it is unknown.
    pid_t peer() const
    {
        ucred credentials{};
        socklen_t size = sizeof(credentials);
        return getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 ? credentials.pid : 0;
    }

private:
    [[noreturn]] void fail_unresponsive() const
    {
        fail(fmt::format("no response within {} s (process {} may be stopped or overloaded)", max_silence_s_, peer()));
    }

    const int max_silence_s_;
    const int fd_;
    std::string received_;
};

} // namespace

std::unique_ptr<writer_set> writer_set::find(const rpma_mirror_cfg *cfg, response_limits limits)
{
    char *path = nullptr;
    if (rpma_mirror_cfg_get_admin_socket(cfg, &path) != 0)
        return nullptr;
    const std::unique_ptr<char, decltype(&std::free)> owned(path, &std::free);
    if (!connection(limits.silence_s).open(path))
        return nullptr;
    return std::unique_ptr<writer_set>(new writer_set(path, limits));
}

// Sends a request and returns the response, whose code is 0 or an expected one. Uses a short timeout without `display`.
writer_set::json writer_set::send_request(
        const json &request, progress *display, std::initializer_list<int> expected) const
{
    connection to(limits_.silence_s);
    if (!to.open(path_))
        fail("closed the set, or was killed");
    to.send_line(mirror_admin::line_of(request));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(limits_.short_request_s);
    for (;;) {
        json line = json::parse(to.receive_line(), nullptr, false);
        if (line.is_object() && line.contains("code")) {
            const int code = line["code"].get<int>();
            if (code != 0 && std::ranges::find(expected, code) == expected.end())
                throw failure(line.value("message", ""), exit_failed, code);
            return line;
        }
        if (!line.is_object() || !line.contains("progress"))
            fail("invalid response (use the version of rpma-mirror that belongs to it)");
        connection::check_canceled();
        if (display == nullptr && std::chrono::steady_clock::now() > end)
            fail(fmt::format(
                    "not completed within {} s (the program may be in its event function)", limits_.short_request_s));
        if (display == nullptr || line["progress"].is_null())
            continue;
        rpma_mirror_progress p{};
        p.size = sizeof(p);
        mirror_admin::each_member_of_progress(p, mirror_admin::reader_of{line["progress"]});
        display->update(p);
    }
}

// A program with too many administrators counts as one that does not respond.
writer_set::json writer_set::report(const char *command) const
{
    const json response = send_request({{"command", command}}, nullptr, {RPMA_MIRROR_E_BUSY});
    if (const int code = response["code"].get<int>(); code != 0)
        throw no_response(program + response.value("message", ""), exit_failed, code);
    return response["result"];
}

std::unique_ptr<rpma_mirror_state> writer_set::state() const
{
    const json result = report("status");
    auto state = make_output<rpma_mirror_state>();
    mirror_admin::from_json(result, *state);
    failure_reason_ = result["failure"].is_string() ? result["failure"].get<std::string>() : "";
    for (rpma_mirror_copy &c : state->copies) {
        if (c.is_local != 0)
            c.last_error = RPMA_MIRROR_E_BUSY;
        // The program repeatedly tries to reconnect to the target.
        if (c.state == RPMA_MIRROR_COPY_STALE &&
                (c.last_error == RPMA_MIRROR_E_CONNECTION || c.last_error == RPMA_MIRROR_E_TIMEOUT))
            c.state = RPMA_MIRROR_COPY_OFFLINE;
    }
    return state;
}

int writer_set::verify(unsigned copy, progress &display, rpma_mirror_verify_report &report)
{
    const json response = send_request(
            {{"command", "verify"}, {"copy", copy}, {"rate", display.rate()}}, &display, {RPMA_MIRROR_E_STALE});
    if (response["code"] != 0)
        return response["code"].get<int>();
    mirror_admin::each_member_of_report(report, mirror_admin::reader_of{response["result"]});
    return report.differing_segments == 0 ? 0 : RPMA_MIRROR_E_VERIFY;
}

int writer_set::resync(unsigned copy, progress &display, std::string &reason)
{
    try {
        send_request({{"command", "resync"}, {"copy", copy}, {"rate", display.rate()}}, &display);
        return 0;
    } catch (const failure &error) {
        // A failure of the library concerns this copy only.
        if (error.code() == 0 || error.code() == RPMA_MIRROR_E_CANCELED)
            throw;
        reason = error.what();
        return error.code();
    }
}

void writer_set::add(unsigned copy, const std::string &location, const std::string &pool_set, progress &display)
{
    send_request(
            {{"command", "add"}, {"copy", copy}, {"target", location}, {"poolset", pool_set}, {"rate", display.rate()}},
            &display);
}

int writer_set::remove(unsigned copy, progress &display)
{
    return send_request({{"command", "remove"}, {"copy", copy}}, &display, {RPMA_MIRROR_E_NOT_FOUND})["code"];
}

void writer_set::grow(std::uint64_t length, progress &display)
{
    send_request({{"command", "grow"}, {"length", length}}, &display);
}

std::string writer_set::metrics() const
{
    return report("metrics").get<std::string>();
}

} // namespace mirror_tool
