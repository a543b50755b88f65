// SPDX-License-Identifier: BSD-3-Clause
#include "transport/tcp/tcp_conn.hpp"
#include "base/assert.hpp"
#include "base/copy.hpp"
#include "base/guard.hpp"
#include "transport/tcp/tcp_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softrdma
{

constexpr std::size_t min_bulk = 4 * 1024;            // minimum size for the separate buffer
constexpr std::size_t max_bulk = 256 * 1024;          // fits into a cache
constexpr std::size_t end_of_segment = 4 * 1024;      // bytes whose last word must be stored last
constexpr std::size_t read_budget = 1024 * 1024;      // one connection must not starve the others
constexpr std::size_t gathered_limit = 16 * 1024;     // copying this much is cheaper than a system call
constexpr std::size_t joined_limit = 256;             // copying this much is cheaper than another iovec
constexpr std::size_t output_limit = 4 * max_segment; // a peer that sends requests but never reads

// Buffer of a reading thread: for input without an incomplete packet, and for long WRITEs, whose words must be whole.
static std::span<std::byte> bulk_memory()
{
    static thread_local const auto memory = std::make_unique_for_overwrite<std::byte[]>(max_bulk);
    return {memory.get(), max_bulk};
}

std::size_t tcp_conn::send_space()
{
    return tcp_socket::send_space(fd_.get());
}

void tcp_conn::transmit(const packet &header, std::span<const iovec> payload, bool more)
{
    SOFTRDMA_ASSERT(payload.size() <= max_iovecs);
    const std::size_t payload_size = total_length(payload);
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
    const ssize_t n = segments.size() == 1 ? ::send(fd_.get(), segments[0].iov_base, waiting, flags)
                                           : sendmsg(fd_.get(), &message, flags);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        shutdown(fd_.get(), SHUT_RDWR); // the reader detects and reports the loss
        return true;
    }
    const auto sent = n < 0 ? 0 : static_cast<std::size_t>(n);
    sent_ += std::min(sent, waiting);
    keep(segments.subspan(1), sent - std::min(sent, waiting));
    return output_.empty();
}

// Stores output that was not sent. If memory is exhausted, shuts the connection down: its reader reports the loss.
void tcp_conn::keep(std::span<const iovec> segments, std::size_t already_sent) noexcept
{
    if (sent_ == output_.size()) {
        output_.clear();
        sent_ = 0;
    }
    std::size_t end = output_.size();
    try {
        output_.resize(end + total_length(segments) - already_sent);
    } catch (const std::bad_alloc &) {
        shutdown(fd_.get(), SHUT_RDWR);
        return;
    }
    for (const iovec &segment : segments) {
        const std::size_t skip = std::min(already_sent, segment.iov_len);
        const auto *from = static_cast<const std::byte *>(segment.iov_base);
        std::byte *to = output_.data() + end;
        if (!guarded([&] { std::copy(from + skip, from + segment.iov_len, to); }))
            shutdown(fd_.get(), SHUT_RDWR); // the file of the program was truncated and lost the data
        end += segment.iov_len - skip;
        already_sent -= skip;
    }
    if (output_.size() - sent_ > output_limit)
        shutdown(fd_.get(), SHUT_RDWR);
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

poll_result tcp_conn::ready(std::uint32_t events)
{
    if (!read_mutex_.try_lock())
        return poll_result::busy;
    const lock_guard reading(read_mutex_, std::adopt_lock);
    return serve(events) ? poll_result::progress : poll_result::idle;
}

bool tcp_conn::serve(std::uint32_t events)
{
    if (lost())
        return false;
    if (events == EPOLLIN && reads_.load(std::memory_order_acquire))
        return read_input();
    bool held = false;
    bool connecting = false;
    {
        const lock_guard lock(mutex_);
        if (closed_)
            return false;
        held = held_ || finishing_;
        connecting = connecting_;
    }
    if (connecting) {
        if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0)
            finish_connecting();
        return false;
    }
    if ((events & EPOLLOUT) != 0)
        flush_output();
    if (!held)
        return read_input();
    if ((events & (EPOLLHUP | EPOLLERR)) != 0)
        drop(ECONNRESET);
    return false;
}

bool tcp_conn::read_input()
{
    std::size_t budget = read_budget;
    bool more = true;
    bool any = filled_ > 0;
    bool valid = parse({input_.data(), filled_});
    int error = 0;
    while (more && valid && budget > 0) {
        std::span<std::byte> buffer = input_;
        if (is_write(frames_.partial().op) && frames_.left() >= filled_ + min_bulk) {
            buffer = bulk_memory();
            std::copy_n(input_.begin(), filled_, buffer.begin());
        } else if (const std::size_t n = read_in_place(more, valid); n > 0) {
            budget -= std::min(budget, n);
            any = true;
            continue;
        } else if (input_.empty()) {
            buffer = bulk_memory().first(frame_reader::whole);
        }
        const std::span<std::byte> space = buffer.subspan(filled_);
        if (space.empty()) // held
            break;
        const ssize_t n = recv(fd_.get(), space.data(), space.size(), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            error = n == 0 ? ECONNRESET : errno;
            more = false;
        } else {
            const auto received = static_cast<std::size_t>(n);
            more = received == space.size();
            budget -= std::min(budget, received);
            any = true;
            valid = parse(buffer.first(filled_ + received));
        }
    }
    if (!any && error == EAGAIN)
        return false;
    if (const auto receiver = bound())
        receiver->received_all();
    if (!valid)
        drop(EPROTO);
    else if (error != 0 && error != EAGAIN)
        drop(error);
    return true;
}

// Receives the available part of a long segment, except its end, directly into its destination if that is certain.
// Returns the number of bytes; 0 if the segment must be received through a buffer.
std::size_t tcp_conn::read_in_place(bool &more, bool &valid)
{
    constexpr std::size_t unit = frame_reader::unit;
    if (filled_ >= unit || frames_.left() < filled_ + min_bulk + end_of_segment)
        return 0;
    const auto receiver = bound();
    if (receiver == nullptr)
        return 0;
    const std::size_t first = filled_ == 0 ? 0 : unit; // the buffer contains the beginning of this unit
    const std::size_t missing = first - filled_;
    if (input_.empty())
        input_.resize(frame_reader::whole); // stores the part of the last unit
    std::size_t available = 0;
    std::size_t received = 0;
    std::span<std::byte> destination;
    const iovec head{input_.data() + filled_, missing};
    const auto receive = [&](std::span<std::byte> memory) {
        int waiting = 0;
        ioctl(fd_.get(), SIOCINQ, &waiting);
        available = static_cast<std::size_t>(waiting);
        if (available < missing + min_bulk || memory.size() < first + min_bulk)
            return;
        destination = memory.subspan(first);
        destination = destination.first(std::min(destination.size(), available - missing) / unit * unit);
        std::array<iovec, 2> segments{head, iovec{destination.data(), destination.size()}};
        msghdr message{};
        message.msg_iov = segments.data();
        message.msg_iovlen = segments.size();
        // Not intercepted by ThreadSanitizer: the program may poll the memory that the kernel stores to.
        const ssize_t n = syscall(SYS_recvmsg, fd_.get(), &message, MSG_DONTWAIT);
        received = n < 0 ? 0 : static_cast<std::size_t>(n); // recv() reports the error too
    };
    receiver->fill_destination(*this, frames_.partial(), frames_.left() - end_of_segment, receive);
    if (received == 0)
        return 0;
    more = received < available;
    filled_ += std::min(received, missing);
    if (received < missing)
        return received;
    const std::size_t placed = received - missing;
    const std::size_t whole = placed / unit * unit;
    valid = (first == 0 || handle(frames_.pass({input_.data(), first}))) &&
            (whole == 0 || handle(frames_.pass(destination.first(whole))));
    filled_ = placed - whole;
    std::copy_n(destination.begin() + static_cast<std::ptrdiff_t>(whole), filled_, input_.begin());
    return received;
}

// Handles received data; the buffer keeps an incomplete packet.
bool tcp_conn::parse(std::span<const std::byte> data)
{
    while (!data.empty()) {
        packet p;
        std::size_t taken = 0;
        const auto found = frames_.next(data, p, taken);
        if (found == frame_reader::found::too_little)
            break;
        if (found == frame_reader::found::garbage || !handle(p))
            return false;
        data = data.subspan(taken);
        if (!is_control(p.op)) // only control packets hold the connection
            continue;
        const lock_guard lock(mutex_);
        if (held_ || closed_)
            break;
    }
    filled_ = 0; // if no memory is left, the connection is cut
    if (const std::size_t size = std::max(frame_reader::whole, data.size()); !data.empty() && input_.size() < size)
        input_.resize(size); // the data is not in this buffer
    std::copy(data.begin(), data.end(), input_.begin());
    filled_ = data.size();
    return true;
}

bool tcp_conn::handle(const packet &p)
{
    std::shared_ptr<packet_receiver> receiver;
    std::uint32_t qpn = 0;
    {
        const lock_guard lock(mutex_);
        receiver = receiver_;
        qpn = local_qpn_;
    }
    if (is_control(p.op)) {
        if (receiver != nullptr)
            receiver->received_all(); // a disconnect must not overtake the completion of a message
        return user_.received(shared_from_this(), p);
    }
    return receiver != nullptr && p.dest_qpn == qpn && receiver->receive(*this, p);
}

} // namespace softrdma
