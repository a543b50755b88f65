// SPDX-License-Identifier: BSD-3-Clause
#include "tcp.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "descriptor.hpp"
#include "socket.hpp"

namespace bench::tcp
{

namespace
{

void exchange(int fd, const greeting &out, greeting &in)
{
    if (send(fd, &out, sizeof out, MSG_NOSIGNAL) != sizeof out)
        throw system_failure("TCP handshake failed");
    if (!wait_readable(fd, handshake_timeout_ms) || recv(fd, &in, sizeof in, MSG_WAITALL) != sizeof in ||
            in.magic != greeting_magic)
        throw failure("the peer is not an rpma-bench server");
}

} // namespace

connection::connection(int fd, const region *data, const region *messages) : fd_(fd), data_(data), messages_(messages)
{
    make_nonblocking(fd);
}

connection::~connection()
{
    close(fd_);
}

std::unique_ptr<connection> connection::connect(const device &, const address &to, const queue_sizes &,
        const region *data, const region *messages, const greeting &handshake)
{
    const int fd = connect_to(to);
    greeting response;
    try {
        exchange(fd, handshake, response);
    } catch (...) {
        close(fd);
        throw;
    }
    return std::unique_ptr<connection>(new connection(fd, data, messages));
}

void connection::atomic_write(std::size_t remote, const char (&value)[8], signal when, std::uint64_t context)
{
    if (outgoing_.empty())
        words_.clear();
    word &stored = words_.emplace_back();
    std::memcpy(stored.value, value, sizeof value);
    post({context, remote, 0, sizeof value, 0, frame_kind::write, when == signal::always, {}},
            reinterpret_cast<const std::byte *>(stored.value));
}

// Unsignaled frames are sent together with the next ones.
void connection::post(const frame &header, const std::byte *content)
{
    outgoing_.push_back({header, content});
    if (header.signalled || header.kind >= frame_kind::message)
        transmit();
}

void connection::transmit()
{
    while (!outgoing_.empty()) {
        iovec parts[32];
        int count = 0;
        std::size_t skip = sent_;
        for (const chunk &p : outgoing_) {
            if (count > 30)
                break;
            const bool has_content = p.content != nullptr;
            const std::size_t header = std::min(skip, sizeof p.header);
            parts[count++] = {
                    const_cast<char *>(reinterpret_cast<const char *>(&p.header)) + header, sizeof p.header - header};
            if (has_content) {
                const std::size_t from = skip - header;
                parts[count++] = {const_cast<std::byte *>(p.content) + from, p.header.len - from};
            }
            skip = 0;
        }
        msghdr message{};
        message.msg_iov = parts;
        message.msg_iovlen = static_cast<std::size_t>(count);
        const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EAGAIN || errno == EINTR)
                return;
            throw system_failure("the TCP connection broke");
        }
        sent_ += static_cast<std::size_t>(sent);
        while (!outgoing_.empty()) {
            const chunk &first = outgoing_.front();
            const std::size_t size = sizeof first.header + (first.content != nullptr ? first.header.len : 0);
            if (sent_ < size)
                break;
            sent_ -= size;
            outgoing_.pop_front();
        }
    }
}

void connection::complete(std::uint64_t context, std::uint32_t imm)
{
    ibv_wc wc{};
    wc.wr_id = context;
    wc.status = IBV_WC_SUCCESS;
    wc.imm_data = htonl(imm);
    completions_.push_back(wc);
}

int connection::poll(ibv_wc *wc, int max_count)
{
    if (!outgoing_.empty())
        transmit();
    while (completions_.size() < static_cast<std::size_t>(max_count)) {
        if (!take_frame() && fill() == 0)
            break;
    }
    const int got = static_cast<int>(std::min(completions_.size(), static_cast<std::size_t>(max_count)));
    for (int i = 0; i < got; ++i) {
        wc[i] = completions_.front();
        completions_.pop_front();
    }
    return got;
}

// Receives into the buffer, or directly into the destination of long content.
std::size_t connection::fill()
{
    const bool direct = in_frame_ && missing_ >= buffer_.size();
    if (!direct && begin_ != 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    std::byte *const to = direct ? destination_ : buffer_.data() + end_;
    const ssize_t got = recv(fd_, to, direct ? missing_ : buffer_.size() - end_, 0);
    if (got == 0)
        throw failure("the peer closed the TCP connection");
    if (got < 0) {
        if (errno == EAGAIN || errno == EINTR)
            return 0;
        throw system_failure("the TCP connection broke");
    }
    if (direct) {
        destination_ += got;
        missing_ -= static_cast<std::size_t>(got);
        if (missing_ == 0)
            finish();
    } else {
        end_ += static_cast<std::size_t>(got);
    }
    return static_cast<std::size_t>(got);
}

// Returns true if bytes of the buffer were consumed.
bool connection::take_frame()
{
    if (!in_frame_) {
        if (end_ - begin_ < sizeof(frame))
            return false;
        std::memcpy(&current_, buffer_.data() + begin_, sizeof current_);
        begin_ += sizeof current_;
        start(current_);
        return true;
    }
    const std::size_t part = std::min(missing_, end_ - begin_);
    if (part == 0)
        return false;
    std::memcpy(destination_, buffer_.data() + begin_, part);
    begin_ += part;
    destination_ += part;
    missing_ -= part;
    if (missing_ == 0)
        finish();
    return true;
}

void connection::start(const frame &header)
{
    in_frame_ = true;
    missing_ = 0;
    switch (header.kind) {
    case frame_kind::write:
    case frame_kind::write_with_imm:
        destination_ = data_->at(header.remote, header.len);
        missing_ = header.len;
        break;
    case frame_kind::read_response:
        destination_ = data_->at(header.local, header.len);
        missing_ = header.len;
        break;
    case frame_kind::message:
        if (receives_.empty() || header.len > receives_.front().len)
            throw failure("message received without a posted receive");
        destination_ = header.len == 0 ? nullptr : messages_->at(receives_.front().offset, header.len);
        missing_ = header.len;
        break;
    default:
        break;
    }
    if (missing_ == 0)
        finish();
}

void connection::response(frame_kind kind, const frame &to, const std::byte *content)
{
    frame header = to;
    header.kind = kind;
    header.signalled = true;
    post(header, content);
}

void connection::finish()
{
    in_frame_ = false;
    const frame header = current_;
    switch (header.kind) {
    case frame_kind::read:
        response(frame_kind::read_response, header, data_->at(header.remote, header.len));
        return;
    case frame_kind::acknowledgement:
    case frame_kind::read_response:
        complete(header.context, header.imm);
        return;
    case frame_kind::persistent_flush:
        data_->at(header.remote, header.len);
        data_->persist(header.remote, header.len);
        break;
    case frame_kind::message:
    case frame_kind::write_with_imm:
        if (receives_.empty())
            throw failure("message received without a posted receive");
        complete(receives_.front().context, header.imm);
        receives_.pop_front();
        break;
    case frame_kind::write:
    case frame_kind::flush:
        break;
    }
    if (header.signalled)
        response(frame_kind::acknowledgement, header, nullptr);
}

bool connection::has_ended()
{
    std::byte b;
    const ssize_t got = recv(fd_, &b, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
}

void connection::disconnect()
{
    shutdown(fd_, SHUT_RDWR);
}

listener::listener(const device &, const address &at) : fd_(listen_on(at)) {}

listener::~listener()
{
    close(fd_);
}

accepted<connection> listener::accept(const acceptance<region> &how)
{
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0)
        throw system_failure("cannot accept a TCP connection");
    greeting handshake;
    try {
        exchange(fd, {}, handshake);
    } catch (const failure &) {
        close(fd);
        return {};
    }
    if (handshake.connection >= how.connections) {
        close(fd);
        return {};
    }
    std::unique_ptr<connection> created(new connection(fd, how.data, how.messages));
    for (std::size_t i = 0; i < how.receives; ++i)
        created->receive(handshake.connection * how.messages_of_one + i * how.slot, how.slot, receive_mark | i);
    return {std::move(created), handshake.connection};
}

} // namespace bench::tcp
