// SPDX-License-Identifier: BSD-3-Clause
#include "transport/tcp/tcp_socket.hpp"
#include "base/gid_table.hpp"
#include "base/settings.hpp"
#include "base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string_view>

namespace softrdma::tcp_socket
{

// Enables keep-alive probes. A host that disappears sends nothing, and TCP alone would retry for a quarter of an hour.
static void enable_keep_alive(int fd)
{
    constexpr int probes = 4;
    const auto limit = settings().response_timeout;
    const int seconds = static_cast<int>(std::chrono::ceil<std::chrono::seconds>(limit).count());
    const int pause = std::clamp(seconds / (probes + 1), 1, 1000);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit.count()));
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, pause);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, pause);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, probes);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

void prepare(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    enable_keep_alive(fd);
}

addresses addresses_of(int fd) noexcept
{
    addresses both;
    socklen_t size = sizeof(both.local);
    getsockname(fd, reinterpret_cast<sockaddr *>(&both.local), &size);
    size = sizeof(both.remote);
    getpeername(fd, reinterpret_cast<sockaddr *>(&both.remote), &size);
    return both;
}

void use_all_of_host(int fd)
{
    const auto [local, remote] = addresses_of(fd);
    constexpr std::string_view unpaced = "reno"; // built into every kernel, and allowed
    if (same(gid_of(local), gid_of(remote)))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced.data(), unpaced.size());
}

std::size_t send_space(int fd) noexcept
{
    std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
    socklen_t size = sizeof(memory);
    getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory.data(), &size);
    const std::uint32_t limit = memory[SK_MEMINFO_SNDBUF];
    return limit - std::min(limit, memory[SK_MEMINFO_WMEM_QUEUED]);
}

bool is_connected_to_itself(int fd) noexcept
{
    const auto [local, remote] = addresses_of(fd);
    return local.ss_family != AF_UNSPEC && memcmp(&local, &remote, sizeof(local)) == 0;
}

} // namespace softrdma::tcp_socket
