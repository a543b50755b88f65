// SPDX-License-Identifier: BSD-3-Clause
#include "transport/tcp/tcp_conn.hpp"
#include "transport/tcp/tcp_socket.hpp"
#include "base/descriptors.hpp"
#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "base/socket_address.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softrdma
{

namespace
{

constexpr std::size_t min_bulk = 4 * 1024;       // minimum size for the separate buffer
constexpr std::size_t max_bulk = 256 * 1024;     // fits into a cache
constexpr std::size_t end_of_segment = 4 * 1024; // bytes whose last word must be stored last
constexpr std::size_t read_budget = 1024 * 1024; // one connection must not starve the others
constexpr auto finish_time = std::chrono::seconds(2);

// Buffer for more of a long WRITE, whose words the kernel would not store whole. One per reading thread, shared by its
// connections.
std::span<std::byte> bulk_memory()
{
    static thread_local const auto memory = std::make_unique_for_overwrite<std::byte[]>(max_bulk);
    return {memory.get(), max_bulk};
}

} // namespace

std::shared_ptr<tcp_conn> tcp_conn::open(int fd, role r, tcp_conn_user &user)
{
    unique_fd taken(fd);
    auto l = std::make_shared<tcp_conn>(fd, r, user);
    static_cast<void>(taken.release());
    descriptors::opened(fd);
    tcp_socket::prepare(fd);
    if (r == role::accepted)
        tcp_socket::use_all_of_host(fd);
    event_loop *a = event_loop::get();
    const std::uint32_t events = r == role::connecting ? EPOLLOUT : EPOLLIN | EPOLLRDHUP;
    const lock_guard lock(l->mutex_);
    if (a == nullptr || (l->watch_ = a->watch(fd, events, l)) == 0)
        return nullptr;
    return l;
}

tcp_conn::~tcp_conn()
{
    if (birth_.is_here())
        close(fd_);
}

void tcp_conn::bind(std::shared_ptr<packet_receiver> receiver, std::uint32_t local_qpn)
{
    const lock_guard lock(mutex_);
    if (closed_)
        return;
    receiver_.swap(receiver); // the former one may be destroyed with its last reference, after the lock is released
    local_qpn_ = local_qpn;
}

std::shared_ptr<packet_receiver> tcp_conn::bound()
{
    const lock_guard lock(mutex_);
    return receiver_;
}

void tcp_conn::update_watch()
{
    reads_.store(!closed_ && !connecting_ && !held_ && !finishing_, std::memory_order_release);
    if (closed_ || lost())
        return;
    std::uint32_t events = held_ || finishing_ ? 0 : EPOLLIN | EPOLLRDHUP;
    if (blocked_)
        events |= EPOLLOUT;
    event_loop::get()->change(watch_, events);
}

void tcp_conn::hold()
{
    const lock_guard lock(mutex_);
    held_ = true;
    update_watch();
}

void tcp_conn::unhold()
{
    const lock_guard lock(mutex_);
    held_ = false;
    update_watch();
    // Data read before the hold is in the buffer, so the socket does not report it.
    event_loop::get()->after(std::chrono::microseconds(0), [weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
            const lock_guard reading(self->read_mutex_);
            self->serve(0);
        }
    });
}

void tcp_conn::start_timer(std::chrono::microseconds delay)
{
    std::uint64_t generation = 0;
    {
        const lock_guard lock(mutex_);
        generation = ++timer_generation_;
    }
    event_loop::get()->after(delay, [weak = weak_from_this(), generation] {
        const auto self = weak.lock();
        if (self == nullptr)
            return;
        std::shared_ptr<packet_receiver> receiver;
        {
            const lock_guard lock(self->mutex_);
            if (self->timer_generation_ == generation)
                receiver = self->receiver_;
        }
        if (receiver != nullptr)
            receiver->timer_expired();
    });
}

void tcp_conn::start_answer_timer(std::chrono::microseconds delay)
{
    event_loop::get()->after(delay, [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (const auto receiver = self == nullptr ? nullptr : self->bound(); receiver != nullptr)
            receiver->answer_timer_expired();
    });
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

void tcp_conn::finish_connecting()
{
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0 && tcp_socket::is_connected_to_itself(fd_))
        error = ECONNREFUSED;
    if (error != 0)
        return drop(error);
    if (becomes_connected(true))
        user_.connected(shared_from_this());
}

// Returns false if it is connected already.
bool tcp_conn::becomes_connected(bool blocked)
{
    tcp_socket::use_all_of_host(fd_);
    const lock_guard lock(mutex_);
    if (!std::exchange(connecting_, false))
        return false;
    blocked_ = blocked;
    update_watch();
    return true;
}

bool tcp_conn::connects_at_once()
{
    pollfd connected{.fd = fd_, .events = POLLOUT, .revents = 0};
    return ::poll(&connected, 1, 0) == 1 && connected.revents == POLLOUT && !tcp_socket::is_connected_to_itself(fd_) &&
           becomes_connected(false);
}

bool tcp_conn::read_input()
{
    std::size_t budget = read_budget;
    bool more = true;
    bool any = filled_ > 0;
    bool good = parse({input_.data(), filled_});
    int error = 0;
    while (more && good && budget > 0) {
        std::span<std::byte> buffer = input_;
        if (is_write(frames_.partial().op) && frames_.left() >= filled_ + min_bulk) {
            buffer = bulk_memory();
            std::copy_n(input_.begin(), filled_, buffer.begin());
        } else if (const std::size_t n = read_in_place(more, good); n > 0) {
            budget -= std::min(budget, n);
            any = true;
            continue;
        }
        const std::span<std::byte> space = buffer.subspan(filled_);
        if (space.empty()) // held
            break;
        const ssize_t n = recv(fd_, space.data(), space.size(), MSG_DONTWAIT);
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
            good = parse(buffer.first(filled_ + received));
        }
    }
    if (!any && error == EAGAIN)
        return false;
    if (const auto receiver = bound())
        receiver->received_all();
    if (!good)
        drop(EPROTO);
    else if (error != 0 && error != EAGAIN)
        drop(error);
    return true;
}

// Receives the available part of a long segment, except its end, directly into its destination if that is certain.
// Returns the number of bytes; 0 if the segment must be received through a buffer.
std::size_t tcp_conn::read_in_place(bool &more, bool &good)
{
    constexpr std::size_t unit = frame_reader::unit;
    if (filled_ >= unit || frames_.left() < filled_ + min_bulk + end_of_segment)
        return 0;
    const auto receiver = bound();
    if (receiver == nullptr)
        return 0;
    const std::size_t first = filled_ == 0 ? 0 : unit; // the buffer contains the beginning of this unit
    const std::size_t missing = first - filled_;
    std::size_t available = 0;
    std::size_t received = 0;
    std::span<std::byte> place;
    const iovec head{input_.data() + filled_, missing};
    const auto receive = [&](std::span<std::byte> memory) {
        int waiting = 0;
        ioctl(fd_, SIOCINQ, &waiting);
        available = static_cast<std::size_t>(waiting);
        if (available < missing + min_bulk || memory.size() < first + min_bulk)
            return;
        place = memory.subspan(first);
        place = place.first(std::min(place.size(), available - missing) / unit * unit);
        std::array<iovec, 2> segments{head, iovec{place.data(), place.size()}};
        msghdr message{};
        message.msg_iov = segments.data();
        message.msg_iovlen = segments.size();
        // A system call that ThreadSanitizer does not intercept: the program may poll the memory that the kernel stores
        // to.
        const ssize_t n = syscall(SYS_recvmsg, fd_, &message, MSG_DONTWAIT);
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
    good = (first == 0 || handle(frames_.pass({input_.data(), first}))) &&
           (whole == 0 || handle(frames_.pass(place.first(whole))));
    filled_ = placed - whole;
    std::copy_n(place.begin() + static_cast<std::ptrdiff_t>(whole), filled_, input_.begin());
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
    filled_ = data.size();
    if (const std::size_t size = std::max(frame_reader::whole, filled_); input_.size() < size)
        input_.resize(size); // the data is not in this buffer
    std::copy(data.begin(), data.end(), input_.begin());
    return true;
}

bool tcp_conn::handle(const packet &p)
{
    if (is_control(p.op))
        return user_.received(shared_from_this(), p);
    std::shared_ptr<packet_receiver> receiver;
    std::uint32_t qpn = 0;
    {
        const lock_guard lock(mutex_);
        receiver = receiver_;
        qpn = local_qpn_;
    }
    return receiver != nullptr && p.dest_qpn == qpn && receiver->receive(*this, p);
}

void tcp_conn::cut() noexcept
{
    shutdown(fd_, SHUT_RDWR); // the reader detects and reports the loss
}

void tcp_conn::ends(sockaddr_storage &here, sockaddr_storage &there) const
{
    const auto addresses = tcp_socket::addresses_of(fd_);
    here = addresses.here;
    there = addresses.there;
}

void tcp_conn::drop(int error)
{
    if (lost_.exchange(true, std::memory_order_acq_rel))
        return;
    if (error == EPROTO)
        log::write(log::level::warn, "peer %s: protocol violation: connection closed",
                text_of(tcp_socket::addresses_of(fd_).there).data());
    std::shared_ptr<packet_receiver> receiver;
    {
        const lock_guard lock(mutex_);
        receiver = disconnect();
    }
    user_.lost(shared_from_this(), receiver, error);
}

// The last reference to the queue pair may be released here. Its destruction takes locks that precede those of the
// connection, so the caller releases it later.
std::shared_ptr<packet_receiver> tcp_conn::disconnect()
{
    if (closed_)
        return nullptr;
    closed_ = true;
    reads_.store(false, std::memory_order_release);
    lost_.store(true, std::memory_order_release);
    shutdown(fd_, SHUT_RDWR);
    event_loop::get()->unwatch(watch_);
    return std::move(receiver_);
}

void tcp_conn::finish()
{
    std::shared_ptr<packet_receiver> released; // released after the lock
    const lock_guard lock(mutex_);
    if (closed_ || finishing_)
        return;
    if (receiver_ != nullptr) // it may be reading right now: notified later, without this lock
        event_loop::get()->after(std::chrono::microseconds(0),
                [receiver = receiver_, self = shared_from_this()] { receiver->path_lost(*self); });
    if (connecting_ || (!blocked_ && push_output())) {
        released = disconnect();
        return;
    }
    finishing_ = true;
    wait_for_send_space();
    event_loop::get()->after(finish_time, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
            std::shared_ptr<packet_receiver> last;
            const lock_guard relock(self->mutex_);
            last = self->disconnect();
        }
    });
}

} // namespace softrdma
