// SPDX-License-Identifier: BSD-3-Clause
#include "stream.hpp"

#include <cerrno>
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

template<class Message, std::size_t Header>
received receive_message(int fd, const deadline &until, message_buffer &buffer, Message &to,
        std::size_t (*size_of)(std::span<const std::byte, Header>))
{
    if (!buffer.resize(Header))
        return received::broken;
    if (const received got = read_whole(fd, until, {buffer.data(), Header}, false); got != received::message)
        return got;
    const std::size_t size = size_of(std::span<const std::byte, Header>(buffer.data(), Header));
    if (size == 0)
        return received::malformed;
    if (!buffer.resize(size))
        return received::broken;
    const received got = read_whole(fd, until, {buffer.data() + Header, size - Header}, true);
    if (got != received::message)
        return got;
    switch (decode(buffer.bytes(), to)) {
    case decoded::good:
        return received::message;
    case decoded::other_version:
        return received::other_version;
    default:
        return received::malformed;
    }
}

} // namespace

bool message_buffer::resize(std::size_t size)
{
    auto *const grown = static_cast<std::byte *>(std::realloc(bytes_, size));
    if (grown == nullptr)
        return false;
    bytes_ = grown;
    size_ = size;
    return true;
}

received receive(int fd, const deadline &until, message_buffer &buffer, greeting &to)
{
    // The greeting of another version may have only four bytes, so these are read and checked first.
    constexpr std::size_t start = 4;
    std::byte first[start];
    if (const received got = read_whole(fd, until, first, false); got != received::message)
        return got;
    if (!buffer.resize(greeting_header_size))
        return received::broken;
    std::memcpy(buffer.data(), first, start);
    if (decode(std::span<const std::byte>(first), to) == decoded::other_version)
        return received::other_version;
    if (first[0] != std::byte{EPROTONOSUPPORT})
        return received::malformed;
    if (const received got = read_whole(fd, until, {buffer.data() + start, greeting_header_size - start}, true);
            got != received::message)
        return got;
    const std::size_t size =
            greeting_size(std::span<const std::byte, greeting_header_size>(buffer.data(), greeting_header_size));
    if (size == 0)
        return received::malformed;
    if (!buffer.resize(size))
        return received::broken;
    if (const received got =
                    read_whole(fd, until, {buffer.data() + greeting_header_size, size - greeting_header_size}, true);
            got != received::message)
        return got;
    const decoded read = decode(buffer.bytes(), to);
    return read == decoded::good            ? received::message
           : read == decoded::other_version ? received::other_version
                                            : received::malformed;
}

received receive(int fd, const deadline &until, message_buffer &buffer, request &to)
{
    return receive_message<request, request_header_size>(fd, until, buffer, to, request_size);
}

received receive(int fd, const deadline &until, message_buffer &buffer, answer &to)
{
    return receive_message<answer, answer_header_size>(fd, until, buffer, to, answer_size);
}

bool send_message(int fd, const deadline &until, const encoded_message &message)
{
    std::span<const std::byte> left = message.bytes();
    while (!left.empty()) {
        if (!wait_for(fd, POLLOUT, until))
            return false;
        ssize_t sent = send(fd, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == ENOTSOCK)
            sent = write(fd, left.data(), left.size());
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        if (sent > 0)
            left = left.subspan(static_cast<std::size_t>(sent));
    }
    return true;
}

bool hung_up(int fd)
{
    pollfd asked{fd, POLLRDHUP, 0};
    return poll(&asked, 1, 0) == 1 && asked.revents != 0;
}

} // namespace replica
