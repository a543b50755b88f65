// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>

#include "clock.hpp"
#include "control.hpp"

namespace replica
{

// Buffer of one received message. Grows to the size in the header, which has been checked.
class message_buffer
{
public:
    message_buffer() = default;
    message_buffer(const message_buffer &) = delete;
    message_buffer &operator=(const message_buffer &) = delete;
    ~message_buffer() { std::free(bytes_); }

    // Returns false if out of memory.
    bool resize(std::size_t size);
    std::byte *data() { return bytes_; }
    std::span<const std::byte> bytes() const { return {bytes_, size_}; }

private:
    std::byte *bytes_ = nullptr;
    std::size_t size_ = 0;
};

enum class received {
    message,
    ended,     // the peer closed the stream between two messages
    broken,    // the peer closed the stream within a message, or an error with errno
    malformed, // received bytes are not a valid message
    other_version,
    timed_out,
};

// Returns true if one of the events, as for poll(), occurs before the deadline.
bool wait_for(int fd, short events, const deadline &until);

// Receive one whole message from a socket or a pipe.
received receive(int fd, const deadline &until, message_buffer &buffer, greeting &to);
received receive(int fd, const deadline &until, message_buffer &buffer, request &to);
received receive(int fd, const deadline &until, message_buffer &buffer, answer &to);

// Returns false if the peer has gone or did not receive the message in time. Does not raise SIGPIPE on a socket.
bool send_message(int fd, const deadline &until, const encoded_message &message);

// Returns whether the peer of a socket has gone. Data that it sent before can still be received.
bool hung_up(int fd);

} // namespace replica
