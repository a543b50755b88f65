// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <sys/types.h>

#include "base/clock.hpp"
#include "message/control.hpp"

namespace replica
{

enum class received {
    message,
    ended,  // the peer closed the stream between two messages
    broken, // the peer closed the stream within a message, or an error with errno
    malformed,
    other_version,
    timed_out,
};

// Returns true if one of the events, as for poll(), occurs before the deadline.
bool wait_for(int fd, short events, const deadline &until);

class byte_stream
{
public:
    virtual ~byte_stream() = default;

    // Descriptor that is readable or writable when read() or write() may continue.
    virtual int fd() const = 0;
    // Returns whether read() has data that the descriptor does not report.
    virtual bool has_pending() const = 0;
    // Like read(2) and write(2). Do not block after fd() became ready, and do not raise SIGPIPE on a socket.
    virtual ssize_t read(std::span<std::byte> to) = 0;
    virtual ssize_t write(std::string_view from) = 0;
};

// Stream over a socket or a pipe, which it does not own.
class fd_stream final : public byte_stream
{
public:
    explicit fd_stream(int fd) : fd_(fd) {}

    int fd() const override { return fd_; }
    bool has_pending() const override { return false; }
    ssize_t read(std::span<std::byte> to) override;
    ssize_t write(std::string_view from) override;

private:
    const int fd_;
};

// Receive one whole message. Running out of memory is reported as a broken connection.
received receive(byte_stream &from, const deadline &until, greeting &to);
received receive(byte_stream &from, const deadline &until, request &to);
received receive(byte_stream &from, const deadline &until, response &to);
template<class Message>
received receive(int fd, const deadline &until, Message &to)
{
    fd_stream from(fd);
    return receive(from, until, to);
}

// Sends a frame. Returns false if the peer has disconnected or did not receive the message in time.
bool send_message(byte_stream &to, const deadline &until, std::string_view frame);
inline bool send_message(int fd, const deadline &until, std::string_view frame)
{
    fd_stream to(fd);
    return send_message(to, until, frame);
}

// Returns whether the peer of a socket has disconnected. Data that it sent before can still be received.
bool has_disconnected(int fd);

} // namespace replica
