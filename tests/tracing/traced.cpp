// SPDX-License-Identifier: BSD-3-Clause
// Both ends of a connection on the software device, and the expected probes: prints the name and arguments of the probe
// for each operation and event. Completions show whether an operation is native or emulated.
#include <rpma.hpp>

#include <arpa/inet.h>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace
{

template<class T>
T must(rpma::result<T> result)
{
    if (!result) {
        std::fprintf(stderr, "traced: %s, errno %d\n", result.error().message(), errno);
        std::exit(1);
    }
    return std::move(result).value();
}

void must(rpma::status done)
{
    if (!done) {
        std::fprintf(stderr, "traced: %s, errno %d\n", done.message(), errno);
        std::exit(1);
    }
}

const void *context(std::uintptr_t number)
{
    return reinterpret_cast<const void *>(number);
}

std::uint32_t number_of(const rpma::connection &conn)
{
    std::uint32_t qp_num = 0;
    must(rpma_conn_get_qp_num(conn.get(), &qp_num));
    return qp_num;
}

ibv_wc collect(const rpma::completion_queue &cq, std::uint64_t expected)
{
    ibv_wc wc{};
    rpma::status polled;
    while ((polled = cq.poll(wc)).code() == RPMA_E_NO_COMPLETION)
        usleep(1000);
    must(polled);
    if (wc.wr_id != expected)
        must(rpma::status(RPMA_E_UNKNOWN));
    std::printf("completions 1 0x%" PRIx64 " %d %u\n", wc.wr_id, wc.status, wc.qp_num);
    return wc;
}

void event(const rpma::connection &conn, rpma_conn_event expected)
{
    rpma_conn_event found;
    do {
        found = must(conn.next_event());
        std::printf("conn_event %u %d\n", number_of(conn), found);
    } while (found != expected);
}

// Returns a port without a listener. A bound socket reserves it for this program.
std::string held_port()
{
    const int holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    auto *address = reinterpret_cast<sockaddr *>(&at);
    const int on = 1;
    if (holder < 0 || bind(holder, address, size) != 0 || getsockname(holder, address, &size) != 0 ||
            setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
        std::perror("traced: no port is free");
        std::exit(1);
    }
    return std::to_string(ntohs(at.sin_port));
}

} // namespace

int main()
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const std::string held = held_port();
    const char *port = held.c_str();
    constexpr auto all = rpma::usage::read_src | rpma::usage::read_dst | rpma::usage::write_src |
                         rpma::usage::write_dst | rpma::usage::flush_visibility | rpma::usage::send | rpma::usage::recv;
    auto peer = must(rpma::peer::create_for_address("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_SOFTRDMA));
    auto ep = must(peer.listen("127.0.0.1", port));
    alignas(8) static std::array<char, 4096> near, far;
    auto local = must(peer.register_memory(std::span(near), all));
    auto target = must(peer.register_memory(std::span(far), all));
    std::vector<std::byte> descriptor(target.descriptor_size());
    must(target.get_descriptor(descriptor));
    auto remote = must(rpma::remote_region::from_descriptor(descriptor));

    auto client = must(must(peer.create_request("127.0.0.1", port)).connect());
    const std::uint32_t qp = number_of(client);
    std::printf("connect %u\n", qp);
    auto server = must(must(ep.next_conn_request()).connect());
    std::printf("accept %u\n", number_of(server));
    event(client, RPMA_CONN_ESTABLISHED);
    event(server, RPMA_CONN_ESTABLISHED);

    const auto base = reinterpret_cast<std::uintptr_t>(far.data());
    must(client.write(remote.slice(64, 100), local.slice(0, 100), rpma::completion_flags::always, context(0x101)));
    std::printf("post_rdma %u 0 0x101 2 100 0x%" PRIxPTR "\n", qp, base + 64);
    collect(client.cq(), 0x101);
    must(client.read(local.slice(0, 30), remote.slice(64, 30), rpma::completion_flags::always, context(0x102)));
    std::printf("post_rdma %u 4 0x102 2 30 0x%" PRIxPTR "\n", qp, base + 64);
    collect(client.cq(), 0x102);
    must(client.flush(
            remote.slice(64, 100), RPMA_FLUSH_TYPE_VISIBILITY, rpma::completion_flags::always, context(0x103)));
    if (collect(client.cq(), 0x103).opcode != IBV_WC_RDMA_READ)
        std::printf("post_flush %u 0x103 2 100 0x%" PRIxPTR "\n", qp, base + 64);
    const std::array<char, 8> word{};
    must(client.atomic_write(remote.get(), 8, word, rpma::completion_flags::always, context(0x104)));
    if (collect(client.cq(), 0x104).opcode != IBV_WC_RDMA_WRITE)
        std::printf("post_atomic_write %u 0x104 2 0x%" PRIxPTR "\n", qp, base + 8);
    must(server.recv(target.slice(1024, 200), context(0x105)));
    std::printf("post_recv %u 0x105 200\n", number_of(server));
    must(client.send(local.slice(0, 50), rpma::completion_flags::always, context(0x106)));
    std::printf("post_send %u 2 0x106 2 50\n", qp);
    collect(client.cq(), 0x106);
    collect(server.cq(), 0x105);
    {
        rpma::batch batch(client);
        must(batch.write(remote.slice(0, 16), local.slice(0, 16), context(0x107)));
        std::printf("post_rdma %u 0 0x107 2147483650 16 0x%" PRIxPTR "\n", qp, base);
        must(batch.send(rpma::local_slice{nullptr, 0, 0}, context(0x108))); // waits, because no receive is posted
        std::printf("post_send %u 2 0x108 2147483650 0\n", qp);
    }
    std::printf("post_batch %u 2\n", qp);
    collect(client.cq(), 0x107);

    must(client.disconnect());
    std::printf("disconnect %u\n", qp);
    event(server, RPMA_CONN_CLOSED);
    must(server.disconnect());
    std::printf("disconnect %u\n", number_of(server));
    event(client, RPMA_CONN_CLOSED);
    collect(client.cq(), 0x108);
    ibv_context *device = nullptr;
    if (rpma_utils_get_ibv_context("no such host.invalid", RPMA_UTIL_IBV_CONTEXT_LOCAL, &device) != RPMA_E_PROVIDER)
        return 1;
    std::printf("provider_error rdma_getaddrinfo %d\n", errno);
    const std::uint32_t server_qp = number_of(server);
    must(client.reset());
    std::printf("conn_delete %u\n", qp);
    must(server.reset());
    std::printf("conn_delete %u\n", server_qp);
    return 0;
}
