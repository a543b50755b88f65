// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

#include "clock.hpp"
#include "control.hpp"

namespace replica
{

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

// Receive one whole message from a socket or a pipe. Out of memory counts as broken.
received receive(int fd, const deadline &until, greeting &to);
received receive(int fd, const deadline &until, request &to);
received receive(int fd, const deadline &until, response &to);

// Sends a frame. Returns false if the peer has gone or did not receive the message in time. Does not raise SIGPIPE on a
// socket.
bool send_message(int fd, const deadline &until, std::string_view frame);

// Returns whether the peer of a socket has gone. Data that it sent before can still be received.
bool hung_up(int fd);

} // namespace replica
