// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>

#include "clock.hpp"
#include "control.hpp"

namespace replica
{

// The bytes of one received message. They grow to what its header announces, which is checked before.
class message_buffer
{
public:
    message_buffer() = default;
    message_buffer(const message_buffer &) = delete;
    message_buffer &operator=(const message_buffer &) = delete;
    ~message_buffer() { std::free(bytes_); }

    // False: there is no memory.
    bool resize(std::size_t size);
    std::byte *data() { return bytes_; }
    std::span<const std::byte> bytes() const { return {bytes_, size_}; }

private:
    std::byte *bytes_ = nullptr;
    std::size_t size_ = 0;
};

enum class received {
    message,
    ended,     // the other side closed before a message began
    broken,    // in the middle of a message, or errno says why
    malformed, // what arrived is no message
    other_version,
    timed_out,
};

// Returns true if one of the events, as for poll(), occurs before the deadline.
bool wait_for(int fd, short events, const deadline &until);

// Each waits for one whole message. The descriptor is a socket or a pipe.
received receive(int fd, const deadline &until, message_buffer &buffer, greeting &to);
received receive(int fd, const deadline &until, message_buffer &buffer, request &to);
received receive(int fd, const deadline &until, message_buffer &buffer, answer &to);

// False: the other side is gone, or did not take the message in time. Never raises SIGPIPE on a socket.
bool send_message(int fd, const deadline &until, const encoded_message &message);

// Whether the other side of a socket is gone. What it had sent before can still be received.
bool hung_up(int fd);

} // namespace replica
