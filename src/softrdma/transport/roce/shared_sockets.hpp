// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/unique_fd.hpp"
#include "progress/listener.hpp"
#include "transport/datagram_path.hpp"

#include <array>
#include <memory>
#include <string>

namespace softrdma::roce
{

// The sockets of UDP port 4791, which the processes of one user in one network namespace share. The kernel selects the
// socket of a packet by its destination queue pair: the high bits of the number are the lane. A process receives from
// the socket of its lane only, so a stopped process does not delay others. Each process has all sockets open, because
// the kernel numbers them by their position, and a process that joins gets them from any other, even a stopped one.
class shared_sockets
{
public:
    static constexpr std::uint32_t lanes = 32;
    static constexpr std::uint32_t lane_shift = 19; // position of the lane in a queue pair number of 24 bits

    // Creates or joins the sockets; waits for at most two seconds. The caller must not hold a lock. Returns NULL and
    // sets `error` to the reason in words if the port cannot be used.
    static std::shared_ptr<shared_sockets> open(std::string &error);
    ~shared_sockets();

    std::uint32_t lane() const noexcept { return lane_; }
    int family() const noexcept { return family_; }
    int socket() const noexcept { return sockets_[lane_].get(); }
    // Socket of the management queue pairs: the same in all processes.
    int management_socket() const noexcept { return sockets_.back().get(); }
    // Opens a socket of another port (0: any free one) at all addresses or at the source of a route. It receives no
    // packets: responses go to the shared port. Returns an empty descriptor and sets errno on error.
    unique_fd open_other(std::uint16_t number, const datagram_route *from = nullptr) const noexcept;
    bool is_shared() const noexcept { return listening_ != nullptr; }

private:
    static constexpr std::size_t count = lanes + 1; // the last one is for the management queue pairs
    static constexpr std::chrono::milliseconds max_wait{2000};

    bool create(int &error);
    int bind_all(int family);
    bool join();
    bool take(int peer);
    bool copy_from(std::uint32_t pid);
    bool has_all();
    bool claim_lane();
    bool serve(const std::shared_ptr<shared_sockets> &self);

    std::array<unique_fd, count> sockets_;
    int family_ = 0;
    std::uint32_t lane_ = 0;
    unique_fd claim_; // socket whose name claims the lane, until it listens
    std::shared_ptr<listener> listening_;
};

} // namespace softrdma::roce
