// SPDX-License-Identifier: BSD-3-Clause
// rpma.hpp over the software device: both ends of a connection in one process, and a coroutine that writes and flushes.
#include <rpma.hpp>

#include <array>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <unistd.h>
#include <vector>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: %s does not hold, errno %d\n", __FILE__, __LINE__, #condition, errno);        \
            std::_Exit(1);                                                                                             \
        }                                                                                                              \
    } while (0)

namespace
{

static_assert(!std::is_copy_constructible_v<rpma::connection> && std::is_nothrow_move_assignable_v<rpma::connection>);

constexpr auto all = rpma::usage::read_src | rpma::usage::read_dst | rpma::usage::write_src | rpma::usage::write_dst |
                     rpma::usage::flush_visibility;

// A coroutine that nobody waits for.
struct task {
    struct promise_type {
        task get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::abort(); }
    };
};

struct ends {
    rpma::connection client, server;
};

ends connect(const rpma::peer &peer, const rpma::endpoint &ep, const char *port)
{
    auto outgoing = peer.request_to("127.0.0.1", port);
    CHECK(outgoing);
    auto client = std::move(*outgoing).connect();
    CHECK(client);
    auto incoming = ep.next_request();
    CHECK(incoming);
    auto server = std::move(*incoming).connect();
    CHECK(server);
    auto event = client->next_event();
    CHECK(event && *event == RPMA_CONN_ESTABLISHED);
    return {std::move(*client), std::move(*server)};
}

task store(const rpma::connection &conn, rpma::remote_slice dst, rpma::local_slice src, bool &done)
{
    auto written = co_await conn.write(dst, src);
    CHECK(written && written->status == IBV_WC_SUCCESS && written->opcode == IBV_WC_RDMA_WRITE);
    auto flushed = co_await conn.flush(dst, RPMA_FLUSH_TYPE_VISIBILITY);
    CHECK(flushed && flushed->status == IBV_WC_SUCCESS);
    done = true;
}

task refused(const rpma::connection &conn, rpma::remote_slice dst, rpma::local_slice src, int &code)
{
    auto written = co_await conn.write(dst, src);
    code = written.error().code();
}

void collect_until(const rpma::completion_queue &cq, const bool &done)
{
    while (!done) {
        pollfd waiting{cq.fd(), POLLIN, 0};
        CHECK(poll(&waiting, 1, 60000) == 1);
        CHECK(cq.wait());
        CHECK(cq.resume_completed());
    }
}

} // namespace

int main()
{
    char port[8];
    std::snprintf(port, sizeof(port), "%d", 20000 + getpid() % 10000);
    auto peer = rpma::peer::at("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_SOFTWARE);
    CHECK(peer);
    auto ep = peer->listen("127.0.0.1", port);
    CHECK(ep);
    std::vector<char> near(4096, 'n'), far(4096, 0);
    auto local = peer->reg(std::span(near), all);
    auto target = peer->reg(std::span(far), all);
    CHECK(local && target);
    std::vector<std::byte> descriptor(target->descriptor_size());
    CHECK(target->describe(descriptor));
    auto remote = rpma::remote_region::from(descriptor);
    CHECK(remote && remote->size() == far.size());
    CHECK(rpma::remote_region::from({}).error().code() == RPMA_E_INVAL);

    ends pair = connect(*peer, *ep, port);
    bool done = false;
    store(pair.client, remote->part(8, 100), local->part(0, 100), done);
    collect_until(pair.client.cq(), done);
    CHECK(far[7] == 0 && far[8] == 'n' && far[107] == 'n' && far[108] == 0);

    int code = 0;
    refused(pair.client, remote->part(4096, 1), local->part(0, 1), code);
    CHECK(code == RPMA_E_INVAL);

    ibv_wc wc{};
    {
        rpma::batch batch(pair.client);
        for (std::size_t i = 0; i < 4; ++i)
            CHECK(batch.write(remote->part(1000 + 10 * i, 10), local->part(0, 10)));
        CHECK(batch.flush(remote->part(1000, 40), RPMA_FLUSH_TYPE_VISIBILITY, &pair));
        CHECK(pair.client.cq().poll(wc).code() == RPMA_E_NO_COMPLETION);
    }
    CHECK(pair.client.cq().wait());
    while (pair.client.cq().poll(wc).code() == RPMA_E_NO_COMPLETION)
        ;
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == reinterpret_cast<std::uintptr_t>(&pair));
    CHECK(far[999] == 0 && far[1000] == 'n' && far[1039] == 'n' && far[1040] == 0);

    const rpma_conn_counters counted = pair.client.counters();
    CHECK(counted.writes == 5 && counted.write_bytes == 140 && counted.flushes == 2 && counted.reads == 0);

    rpma::connection moved = std::move(pair.client);
    CHECK(!pair.client && moved);
    CHECK(moved.reset().ok() && pair.server.reset().ok());
#ifdef __cpp_exceptions
    try {
        (void)rpma::remote_region::from({}).value();
        CHECK(false);
    } catch (const std::system_error &) {
    }
#endif
    return 0;
}
