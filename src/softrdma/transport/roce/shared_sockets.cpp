// SPDX-License-Identifier: BSD-3-Clause
#include "transport/roce/shared_sockets.hpp"
#include "base/config.hpp"
#include "base/gid_table.hpp"
#include "base/local_socket.hpp"
#include "transport/udp/udp_message.hpp"
#include "wire/roce.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <thread>
#include <vector>

namespace softrdma::roce
{

namespace
{

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

// Requested size of a receive buffer; the system may grant less.
constexpr int receive_buffer = 8 << 20;
// TTL of multicast packets of the first socket, which are never sent: the option keeps the position of a socket.
constexpr int first_mark = 2;
constexpr std::uint32_t creator = shared_sockets::lanes; // name of the process that creates the sockets

// Name of the process of a lane, or of the creator.
struct lane_address : local_address {
    explicit lane_address(std::uint32_t number) noexcept : local_address("softrdma-roce/%u/%u", geteuid(), number) {}
};

// Opens a socket that is bound to that port. Returns an empty descriptor and sets errno on error.
unique_fd open_bound(int family, std::uint16_t port, bool shared, const datagram_route *from = nullptr) noexcept
{
    unique_fd fd(::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd.get() < 0)
        return fd;
    sockaddr_storage own{};
    own.ss_family = static_cast<sa_family_t>(family);
    port_of(own) = htons(port);
    if (from != nullptr)
        end_at(family, from->source, from->interface, port, own);
    if (shared)
        set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
    // With DF, Linux sends the identification 0, which the invariant CRC covers.
    set_option(fd.get(), IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    if (family == AF_INET6) {
        set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
        set_option(fd.get(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
        set_option(fd.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
        set_option(fd.get(), IPPROTO_UDP, UDP_NO_CHECK6_RX, 1); // SoftRoCE sends none
    } else {
        set_option(fd.get(), IPPROTO_IP, IP_PKTINFO, 1);
    }
    for (const int option : {SO_RCVBUF, SO_RCVBUFFORCE, SO_SNDBUF})
        set_option(fd.get(), SOL_SOCKET, option, receive_buffer);
    const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    return bind(fd.get(), reinterpret_cast<const sockaddr *>(&own), size) == 0 ? std::move(fd) : unique_fd();
}

// Returns the position of a socket of the port, or a larger number for another descriptor.
std::size_t position_of(int fd) noexcept
{
    sockaddr_storage own{};
    int mark = 0;
    socklen_t size = sizeof(own);
    socklen_t mark_size = sizeof(mark);
    const bool is_marked = getsockname(fd, reinterpret_cast<sockaddr *>(&own), &size) == 0 &&
                           (own.ss_family == AF_INET || own.ss_family == AF_INET6) &&
                           reinterpret_cast<const sockaddr_in &>(own).sin_port == htons(udp_port) &&
                           getsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &mark, &mark_size) == 0;
    return static_cast<std::size_t>(is_marked ? mark : 0) - first_mark; // wraps if there is no mark
}

// Selects the socket: the lane of the destination queue pair, or the last socket for the management queue pairs.
int select_by_queue_pair(int fd) noexcept
{
    constexpr std::uint32_t lane_shift = shared_sockets::lane_shift;
    std::array<sock_filter, 6> code{{
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4), // offset in the BTH, which is the payload of the UDP packet
            BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
            BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 1, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, shared_sockets::lanes),
            BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, lane_shift),
            BPF_STMT(BPF_RET | BPF_A, 0),
    }};
    const sock_fprog program{.len = code.size(), .filter = code.data()};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) == 0 ? 0 : errno;
}

const char *reason_of_use() noexcept
{
    return access("/sys/module/rdma_rxe", F_OK) == 0
                   ? "in use, probably by SoftRoCE of the kernel (unload it with 'modprobe -r rdma_rxe', or use "
                     "another "
                     "network namespace)"
                   : "in use by a process of another user, a stopped process, or another program (end it, or use "
                     "another network namespace)";
}

} // namespace

shared_sockets::~shared_sockets()
{
    if (listening_ != nullptr)
        listening_->close();
}

int shared_sockets::bind_all(int family)
{
    for (int mark = first_mark; unique_fd & fd : sockets_) {
        fd = open_bound(family, udp_port, true);
        if (fd.get() < 0)
            return errno;
        set_option(fd.get(), IPPROTO_IP, IP_MULTICAST_TTL, mark++);
    }
    return select_by_queue_pair(sockets_[0].get());
}

// Creates the sockets if no process has the port. One process at a time does so, because a second one would add its own
// sockets to those of the first. Returns false with `error` 0 if another process may have them.
bool shared_sockets::create(int &error)
{
    const lane_address name(creator);
    const unique_fd claim = open_local_socket();
    error = 0;
    if (bind(claim.get(), name.get(), name.size) != 0) {
        error = errno == EADDRINUSE ? 0 : errno;
        return false;
    }
    for (const int family : {AF_INET6, AF_INET}) {
        const bool is_free = open_bound(family, udp_port, false).get() >= 0;
        error = is_free ? bind_all(family) : errno;
        family_ = family;
        if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) // no IPv6
            continue;
        break;
    }
    const bool is_created = error == 0;
    if (!is_created)
        sockets_ = {};
    error = error == EADDRINUSE ? 0 : error;
    return is_created;
}

bool shared_sockets::take(int peer)
{
    std::byte payload{};
    return receive_with_descriptors(peer, &payload, sizeof(payload), sockets_) == reception::message && has_all();
}

bool shared_sockets::has_all()
{
    socklen_t size = sizeof(family_);
    return std::ranges::all_of(sockets_, [](const unique_fd &fd) { return fd.get() >= 0; }) &&
           getsockopt(sockets_[0].get(), SOL_SOCKET, SO_DOMAIN, &family_, &size) == 0;
}

// Copies the sockets of a process that is stopped. The kernel permits it to a process that may debug the other one.
bool shared_sockets::copy_from(std::uint32_t pid)
{
    namespace fs = std::filesystem;
    std::error_code error;
    const unique_fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    for (fs::directory_iterator at("/proc/" + std::to_string(pid) + "/fd", error); !error && at != fs::end(at);
            at.increment(error)) {
        if (!fs::read_symlink(*at, error).native().starts_with("socket:"))
            continue;
        const int number = atoi(at->path().filename().c_str());
        unique_fd fd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), number, 0)));
        if (const std::size_t position = position_of(fd.get()); position < count)
            sockets_[position] = std::move(fd);
    }
    return has_all();
}

// Requests the sockets from all processes that have them. If none responds, because all are stopped, copies them.
bool shared_sockets::join()
{
    std::vector<unique_fd> peers;
    std::vector<pollfd> polled;
    std::vector<std::uint32_t> owners;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        const lane_address name(lane);
        unique_fd peer = open_local_socket();
        if (connect(peer.get(), name.get(), name.size) != 0)
            continue;
        const auto owner = process_of_own_user(peer.get());
        if (!owner)
            continue;
        owners.push_back(*owner);
        polled.push_back({.fd = peer.get(), .events = POLLIN, .revents = 0});
        peers.push_back(std::move(peer));
    }
    const auto end = clock::now() + 500ms;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now());
        const bool is_waiting = std::ranges::any_of(polled, [](const pollfd &p) { return p.fd >= 0; });
        if (!is_waiting || left <= 0ms || poll(polled.data(), polled.size(), static_cast<int>(left.count())) <= 0)
            return std::ranges::any_of(owners, [this](std::uint32_t owner) { return owner != 0 && copy_from(owner); });
        for (pollfd &p : polled) {
            if (p.revents == 0)
                continue;
            if (take(p.fd))
                return true;
            p.fd = -1; // it has exited
        }
    }
}

bool shared_sockets::claim_lane()
{
    claim_ = open_local_socket();
    for (lane_ = 0; lane_ < lanes; ++lane_) {
        const lane_address name(lane_);
        if (bind(claim_.get(), name.get(), name.size) == 0)
            return true;
    }
    return false;
}

// Gives the sockets to each process of the same user that connects to the name of the lane.
bool shared_sockets::serve(const std::shared_ptr<shared_sockets> &self)
{
    listener::receiver give = [weak = std::weak_ptr(self)](int accepted) -> std::chrono::milliseconds {
        const unique_fd peer(accepted);
        const auto owner = weak.lock();
        if (accepted < 0 || owner == nullptr || !process_of_own_user(accepted))
            return 0ms;
        const std::byte payload{};
        std::array<int, count> given{};
        std::ranges::transform(owner->sockets_, given.begin(), &unique_fd::get);
        send_with_descriptors(accepted, &payload, sizeof(payload), given); // if it fails, the peer finds the end
        return 0ms;
    };
    listening_ = listener::open(claim_.release(), SOMAXCONN, std::move(give));
    return listening_ != nullptr;
}

unique_fd shared_sockets::open_other(std::uint16_t number, const datagram_route *from) const noexcept
{
    unique_fd fd = open_bound(family_, number, false, from);
    sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{.len = 1, .filter = &nothing};
    return fd.get() >= 0 && setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0
                   ? std::move(fd)
                   : unique_fd();
}

std::shared_ptr<shared_sockets> shared_sockets::open(std::string &error)
{
    auto self = std::make_shared<shared_sockets>();
    const bool shares = config::is(config::setting::trust, config::trust_word::user);
    const auto end = clock::now() + max_wait;
    for (int failure = 0; !self->create(failure) && (!shares || !self->join());) {
        self->sockets_ = {};
        if (failure != 0) {
            error = strerror(failure);
            return nullptr;
        }
        if (!shares || clock::now() >= end) {
            error = shares ? reason_of_use() : "in use (SOFTRDMA_TRUST=none: processes do not share it)";
            return nullptr;
        }
        std::this_thread::sleep_for(5ms); // another process creates the sockets, or exits
    }
    if (!self->claim_lane()) {
        error = "in use by " + std::to_string(lanes) + " processes of this user, the limit (end one)";
        return nullptr;
    }
    if (shares && !self->serve(self)) {
        error = strerror(errno);
        return nullptr;
    }
    return self;
}

} // namespace softrdma::roce
