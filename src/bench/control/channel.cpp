// SPDX-License-Identifier: BSD-3-Clause
#include "channel.hpp"

#include <algorithm>
#include <climits>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "api/descriptor.hpp"
#include "engine/clock.hpp"
#include "failure.hpp"

namespace bench
{

namespace
{

int milliseconds_until(std::uint64_t end_ns)
{
    const std::uint64_t now = now_ns();
    return now >= end_ns ? 0 : static_cast<int>(std::min<std::uint64_t>((end_ns - now) / 1'000'000 + 1, INT_MAX));
}

} // namespace

channel::channel(int fd, std::string peer) : fd_(fd), peer_(std::move(peer)) {}

channel::~channel()
{
    if (fd_ >= 0)
        close(fd_);
}

channel::channel(channel &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)), peer_(std::move(other.peer_)), buffer_(std::move(other.buffer_))
{
}

void channel::send(const json &message)
{
    const std::string line = message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    for (std::size_t done = 0; done < line.size();) {
        const ssize_t sent = ::send(fd_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            throw peer_gone(peer_ + " broke the connection: " + std::strerror(errno));
        done += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    }
}

json channel::receive(double timeout_s, std::size_t max_size)
{
    // The deadline covers the whole message, not each read.
    const std::uint64_t end = now_ns() + static_cast<std::uint64_t>(std::max(timeout_s, 0.0) * 1e9);
    for (;;) {
        if (const std::size_t length = buffer_.find('\n'); length != std::string::npos) {
            const std::string line = buffer_.substr(0, length);
            buffer_.erase(0, length + 1);
            json message = json::parse(line, nullptr, false);
            if (!message.is_object())
                throw failure(peer_ + " is not rpma-bench: unexpected data");
            return message;
        }
        if (buffer_.size() > max_size)
            throw failure(peer_ + " is not rpma-bench: unexpected data");
        if (!wait_readable(fd_, timeout_s < 0 ? -1 : milliseconds_until(end)))
            throw peer_gone(peer_ + ": no response");
        char part[65536];
        const ssize_t got = recv(fd_, part, sizeof part, 0);
        if (got == 0)
            throw peer_gone(peer_ + " has ended" + (buffer_.empty() ? "" : " within a message"));
        if (got < 0 && errno != EINTR)
            throw peer_gone(peer_ + " broke the connection: " + std::strerror(errno));
        buffer_.append(part, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    }
}

} // namespace bench
