// SPDX-License-Identifier: BSD-3-Clause
#include "channel/stream.hpp"

#include <array>
#include <cerrno>
#include <new>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace replica
{

bool wait_for(int fd, short events, const deadline &until)
{
    for (;;) {
        pollfd pollers[] = {{fd, events, 0}, {until.interrupt_fd(), POLLIN, 0}};
        const int ready = poll(pollers, 2, until.left_ms());
        if (ready >= 0)
            return pollers[0].revents != 0;
        if (errno != EINTR)
            return false;
    }
}

namespace
{

// Reads exactly to.size() bytes. `partial` is true if the first bytes of the message have been read before.
received read_whole(byte_stream &from, const deadline &until, std::span<std::byte> to, bool partial)
{
    std::size_t done = 0;
    while (done < to.size()) {
        if (!from.has_pending() && !wait_for(from.fd(), POLLIN, until))
            return received::timed_out;
        const ssize_t got = from.read(to.subspan(done));
        if (got == 0)
            return partial || done > 0 ? received::broken : received::ended;
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return received::broken;
        if (got > 0)
            done += static_cast<std::size_t>(got);
    }
    return received::message;
}

received to_received(decoded result)
{
    return result == decoded::good            ? received::message
           : result == decoded::other_version ? received::other_version
                                              : received::malformed;
}

// Receives a frame. `partial` is true if the preamble of the message has been read before.
template<class Message>
received receive_frame(byte_stream &from, const deadline &until, Message &to, bool partial)
try {
    std::array<std::byte, frame_header_size> header;
    if (const received got = read_whole(from, until, header, partial); got != received::message)
        return got;
    const std::optional<std::size_t> size = message_size(header);
    if (!size)
        return received::malformed;
    std::string bytes(*size, '\0');
    const received got = read_whole(from, until, std::as_writable_bytes(std::span(bytes)), true);
    return got == received::message ? to_received(decode(bytes, to)) : got;
} catch (const std::bad_alloc &) {
    return received::broken;
}

} // namespace

received receive(byte_stream &from, const deadline &until, greeting &to)
{
    // The greeting of another version may have only four bytes, so these are read and checked first.
    constexpr std::size_t start = 4;
    std::array<std::byte, preamble_size> preamble;
    const std::span all(preamble);
    for (const auto &[part, end] : {std::pair(all.first(start), start), std::pair(all.subspan(start), all.size())}) {
        if (const received got = read_whole(from, until, part, end > start); got != received::message)
            return got;
        if (const decoded result = check_preamble(all.first(end)); result != decoded::good)
            return to_received(result);
    }
    return receive_frame(from, until, to, true);
}

received receive(byte_stream &from, const deadline &until, request &to)
{
    return receive_frame(from, until, to, false);
}

received receive(byte_stream &from, const deadline &until, response &to)
{
    return receive_frame(from, until, to, false);
}

ssize_t fd_stream::read(std::span<std::byte> to)
{
    return ::read(fd_, to.data(), to.size());
}

ssize_t fd_stream::write(std::string_view from)
{
    const ssize_t sent = send(fd_, from.data(), from.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 && errno == ENOTSOCK ? ::write(fd_, from.data(), from.size()) : sent;
}

bool send_message(byte_stream &to, const deadline &until, std::string_view left)
{
    while (!left.empty()) {
        if (!wait_for(to.fd(), POLLOUT, until))
            return false;
        const ssize_t sent = to.write(left);
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        if (sent > 0)
            left.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

bool has_disconnected(int fd)
{
    pollfd polled{fd, POLLRDHUP, 0};
    return poll(&polled, 1, 0) == 1 && polled.revents != 0;
}

} // namespace replica
