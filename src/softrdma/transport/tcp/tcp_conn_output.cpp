// SPDX-License-Identifier: BSD-3-Clause
// Output of a TCP connection, and the data that waits for space in the socket.
#include "base/assert.hpp"
#include "transport/tcp/tcp_conn.hpp"
#include "base/guard.hpp"
#include "transport/tcp/tcp_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/socket.h>

namespace softrdma
{

namespace
{

constexpr std::size_t gathered_limit = 16 * 1024;     // copying this much is cheaper than a system call
constexpr std::size_t joined_limit = 256;             // copying this much is cheaper than another iovec
constexpr std::size_t output_limit = 4 * max_segment; // a peer that sends requests but never reads

std::size_t total(std::span<const iovec> segments) noexcept
{
    std::size_t bytes = 0;
    for (const iovec &segment : segments)
        bytes += segment.iov_len;
    return bytes;
}

} // namespace

bool tcp_conn::congested()
{
    const lock_guard lock(mutex_);
    return blocked_;
}

std::size_t tcp_conn::send_space()
{
    return tcp_socket::send_space(fd_);
}

void tcp_conn::transmit(const packet &header, std::span<const iovec> payload, bool more)
{
    SOFTRDMA_ASSERT(payload.size() <= max_iovecs);
    const std::size_t payload_size = total(payload);
    frame_headers headers = encode(header, payload_size);
    std::array<iovec, max_iovecs + 2> segments; // the first is for waiting output
    segments[1] = {headers.bytes.data(), headers.size};
    const auto end = std::copy(payload.begin(), payload.end(), segments.begin() + 2);

    const lock_guard lock(mutex_);
    if (closed_ || lost())
        return;
    const bool waits = blocked_ || (more && output_.size() + payload_size <= gathered_limit);
    if (!waits && payload_size > joined_limit) {
        if (!send({segments.begin(), end}))
            wait_for_send_space();
        return;
    }
    keep({segments.begin() + 1, end}, 0);
    if (!waits && !push_output())
        wait_for_send_space();
}

void tcp_conn::send_control(opcode op, std::span<const std::byte> payload)
{
    const iovec segment{const_cast<std::byte *>(payload.data()), payload.size()};
    transmit({.op = op}, {&segment, 1}, false);
}

void tcp_conn::push()
{
    const lock_guard lock(mutex_);
    if (!closed_ && !lost() && !blocked_ && !push_output())
        wait_for_send_space();
}

bool tcp_conn::push_output()
{
    iovec waiting{};
    return output_.empty() || send({&waiting, 1});
}

// Sends the waiting output, which becomes the first iovec, and the others; stores what cannot be sent yet.
bool tcp_conn::send(std::span<iovec> segments)
{
    SOFTRDMA_ASSERT(sent_ <= output_.size());
    const std::size_t waiting = output_.size() - sent_;
    segments[0] = {output_.data() + sent_, waiting};
    msghdr message{};
    message.msg_iov = segments.data();
    message.msg_iovlen = segments.size();
    if (event_loop *a = event_loop::get(); !a->expects(*this))
        a->expect(shared_from_this());
    constexpr int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    const ssize_t n =
            segments.size() == 1 ? ::send(fd_, segments[0].iov_base, waiting, flags) : sendmsg(fd_, &message, flags);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        shutdown(fd_, SHUT_RDWR); // the reader detects and reports the loss
        return true;
    }
    const auto sent = n < 0 ? 0 : static_cast<std::size_t>(n);
    sent_ += std::min(sent, waiting);
    keep(segments.subspan(1), sent - std::min(sent, waiting));
    return output_.empty();
}

// Stores output that was not sent. If memory is exhausted, shuts down the connection: the reader detects and reports
// the loss.
void tcp_conn::keep(std::span<const iovec> segments, std::size_t already_sent) noexcept
{
    if (sent_ == output_.size()) {
        output_.clear();
        sent_ = 0;
    }
    std::size_t end = output_.size();
    try {
        output_.resize(end + total(segments) - already_sent);
    } catch (const std::bad_alloc &) {
        shutdown(fd_, SHUT_RDWR);
        return;
    }
    for (const iovec &segment : segments) {
        const std::size_t skip = std::min(already_sent, segment.iov_len);
        const auto *from = static_cast<const std::byte *>(segment.iov_base);
        std::byte *to = output_.data() + end;
        if (!guarded([&] { std::copy(from + skip, from + segment.iov_len, to); }))
            shutdown(fd_, SHUT_RDWR); // the file of the program was truncated and lost the data
        end += segment.iov_len - skip;
        already_sent -= skip;
    }
    if (output_.size() - sent_ > output_limit)
        shutdown(fd_, SHUT_RDWR);
}

void tcp_conn::wait_for_send_space()
{
    blocked_ = true;
    update_watch();
}

void tcp_conn::flush_output()
{
    std::shared_ptr<packet_receiver> released; // released after the lock
    {
        const lock_guard lock(mutex_);
        if (closed_ || !blocked_ || !push_output())
            return;
        blocked_ = false;
        if (finishing_) {
            released = disconnect();
            return;
        }
        update_watch();
    }
    if (const auto receiver = bound())
        receiver->path_writable();
}

} // namespace softrdma
