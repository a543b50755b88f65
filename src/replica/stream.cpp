// SPDX-License-Identifier: BSD-3-Clause
#include "stream.hpp"

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
received read_whole(int fd, const deadline &until, std::span<std::byte> to, bool partial)
{
    std::size_t done = 0;
    while (done < to.size()) {
        if (!wait_for(fd, POLLIN, until))
            return received::timed_out;
        const ssize_t got = read(fd, to.data() + done, to.size() - done);
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
received receive_frame(int fd, const deadline &until, Message &to, bool partial)
try {
    std::array<std::byte, frame_header_size> header;
    if (const received got = read_whole(fd, until, header, partial); got != received::message)
        return got;
    const std::optional<std::size_t> size = message_size(header);
    if (!size)
        return received::malformed;
    std::string bytes(*size, '\0');
    const received got = read_whole(fd, until, std::as_writable_bytes(std::span(bytes)), true);
    return got == received::message ? to_received(decode(bytes, to)) : got;
} catch (const std::bad_alloc &) {
    return received::broken;
}

} // namespace

received receive(int fd, const deadline &until, greeting &to)
{
    // The greeting of another version may have only four bytes, so these are read and checked first.
    constexpr std::size_t start = 4;
    std::array<std::byte, preamble_size> preamble;
    const std::span all(preamble);
    for (const auto &[part, known] : {std::pair(all.first(start), start), std::pair(all.subspan(start), all.size())}) {
        if (const received got = read_whole(fd, until, part, known > start); got != received::message)
            return got;
        if (const decoded result = check_preamble(all.first(known)); result != decoded::good)
            return to_received(result);
    }
    return receive_frame(fd, until, to, true);
}

received receive(int fd, const deadline &until, request &to)
{
    return receive_frame(fd, until, to, false);
}

received receive(int fd, const deadline &until, response &to)
{
    return receive_frame(fd, until, to, false);
}

bool send_message(int fd, const deadline &until, std::string_view left)
{
    while (!left.empty()) {
        if (!wait_for(fd, POLLOUT, until))
            return false;
        ssize_t sent = send(fd, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == ENOTSOCK)
            sent = write(fd, left.data(), left.size());
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        if (sent > 0)
            left.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

bool hung_up(int fd)
{
    pollfd asked{fd, POLLRDHUP, 0};
    return poll(&asked, 1, 0) == 1 && asked.revents != 0;
}

} // namespace replica
