// SPDX-License-Identifier: BSD-3-Clause
// rpma.hpp on the software device: both ends of a connection in one process, and a coroutine that writes and flushes.
#include <rpma.hpp>

#include <arpa/inet.h>
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

// A coroutine without an awaiting caller.
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

ends connect(const rpma::peer &peer, const rpma::endpoint &ep, const char *port, const rpma::conn_cfg &of_server = {})
{
    constexpr std::array hello{std::byte{'h'}, std::byte{'i'}};
    auto outgoing = peer.create_request("127.0.0.1", port);
    CHECK(outgoing);
    auto client = std::move(*outgoing).connect(hello);
    CHECK(client);
    auto incoming = ep.next_conn_request(of_server.get());
    CHECK(incoming && incoming->private_data().size() >= 2 && incoming->private_data()[1] == hello[1]);
    auto server = std::move(*incoming).connect(hello);
    CHECK(server);
    for (const rpma::connection *conn : {&*client, &*server})
        CHECK(conn->next_event().value_or(RPMA_CONN_UNDEFINED) == RPMA_CONN_ESTABLISHED);
    CHECK(client->private_data().size() >= 2 && client->private_data()[0] == hello[0]);
    CHECK(client->qp_num() != 0 && client->qp_num() != server->qp_num());
    return {std::move(*client), std::move(*server)};
}

task store(const rpma::connection &conn, rpma::remote_slice dst, rpma::local_slice src, bool &done)
{
    auto written = co_await conn.async_write(dst, src);
    CHECK(written && written->status == IBV_WC_SUCCESS && written->opcode == IBV_WC_RDMA_WRITE);
    auto flushed = co_await conn.async_flush(dst, RPMA_FLUSH_TYPE_VISIBILITY);
    CHECK(flushed && flushed->status == IBV_WC_SUCCESS);
    done = true;
}

// The second message may arrive before the coroutine awaits it.
task receive_two(const rpma::connection &conn, rpma::local_slice first, rpma::local_slice second, std::uint32_t &imms)
{
    auto plain = co_await conn.async_recv(first);
    CHECK(plain && plain->status == IBV_WC_SUCCESS && plain->opcode == IBV_WC_RECV && plain->byte_len == 3);
    auto with_imm = co_await conn.async_recv(second);
    CHECK(with_imm && with_imm->status == IBV_WC_SUCCESS);
    imms = ntohl(with_imm->imm_data);
}

task send_two(const rpma::connection &conn, rpma::local_slice src, rpma_mr_remote *word, bool &done)
{
    auto sent = co_await conn.async_send(src);
    CHECK(sent && sent->status == IBV_WC_SUCCESS);
    auto numbered = co_await conn.async_send_with_imm(src, 0x01020304);
    CHECK(numbered && numbered->status == IBV_WC_SUCCESS);
    auto stored = co_await conn.async_atomic_write(word, 16, std::span<const char, 8>("atomic!", 8));
    CHECK(stored && stored->status == IBV_WC_SUCCESS);
    done = true;
}

// Sends messages to a connection with its own receive queue, and a write with immediate data to one with a shared
// receive queue.
void meet_on_other_queues(const rpma::peer &peer, const rpma::endpoint &ep, const char *port, rpma::local_slice src,
        rpma::remote_slice dst)
{
    auto of_srq = rpma::srq_cfg::create();
    CHECK(of_srq && of_srq->set_rq_size(4) && of_srq->set_rcq_size(4));
    auto srq = peer.create_srq(*of_srq);
    CHECK(srq && srq->rcq().get() != nullptr && srq->recv({nullptr, 0, 0}, &of_srq));
    auto cfg = rpma::conn_cfg::create();
    CHECK(cfg && cfg->set_timeout_ms(2000) && cfg->set_cq_size(8) && cfg->set_sq_size(8) && cfg->set_rq_size(8));
    CHECK(cfg->set_srq(*srq));
    ends shared = connect(peer, ep, port, *cfg);
    CHECK(shared.server.completion_channel_fd() == -1 && shared.server.wait().error().code() == RPMA_E_NOT_SHARED_CHNL);
    CHECK(shared.client.write_with_imm(dst, src, 77, rpma::completion_flags::on_error));
    CHECK(srq->rcq().wait());
    ibv_wc wc{};
    CHECK(srq->rcq().poll(wc) && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && ntohl(wc.imm_data) == 77);
    CHECK(wc.qp_num == shared.server.qp_num() && wc.wr_id == reinterpret_cast<std::uintptr_t>(&of_srq));

    auto both = rpma::conn_cfg::create();
    CHECK(both && both->set_rcq_size(4) && both->set_compl_channel(true));
    ends pair = connect(peer, ep, port, *both);
    CHECK(pair.server.completion_channel_fd() >= 0 && pair.server.rcq().get() != nullptr);
    CHECK(pair.client.rcq().get() == nullptr);
    CHECK(pair.server.recv({nullptr, 0, 0}) && pair.client.send({nullptr, 0, 0}, rpma::completion_flags::on_error));
    auto fired = pair.server.wait();
    CHECK(fired && fired->get() == pair.server.rcq().get() && fired->poll(wc) && wc.opcode == IBV_WC_RECV);
}

void send_to_a_peer(const rpma::connection &conn)
{
    auto mine = rpma::peer_cfg::create();
    CHECK(mine && !mine->direct_write_to_pmem() && mine->set_direct_write_to_pmem(true));
    std::array<std::byte, 8> desc{};
    CHECK(mine->descriptor_size() <= desc.size() && mine->get_descriptor(desc));
    auto theirs = rpma::peer_cfg::from_descriptor(desc);
    CHECK(theirs && theirs->direct_write_to_pmem() && conn.apply_remote_peer_cfg(*theirs));
}

task refused(const rpma::connection &conn, rpma::remote_slice dst, rpma::local_slice src, int &code)
{
    auto written = co_await conn.async_write(dst, src);
    code = written.error().code();
}

void collect_until(const rpma::completion_queue &cq, const bool &done)
{
    while (!done) {
        pollfd waiting{cq.fd(), POLLIN, 0};
        CHECK(poll(&waiting, 1, 60000) == 1);
        CHECK(cq.wait());
        CHECK(cq.dispatch_completions());
    }
}

} // namespace

int main()
{
    char port[8];
    std::snprintf(port, sizeof(port), "%d", 20000 + getpid() % 10000);
    auto peer = rpma::peer::create_for_address("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_DEVICE_SOFTRDMA);
    CHECK(peer);
    auto ep = peer->listen("127.0.0.1", port);
    CHECK(ep);
    std::vector<char> near(4096, 'n'), far(4096, 0);
    auto local = peer->register_memory(std::span(near), all);
    auto target = peer->register_memory(std::span(far), all);
    CHECK(local && target);
    std::vector<std::byte> descriptor(target->descriptor_size());
    CHECK(target->get_descriptor(descriptor));
    auto remote = rpma::remote_region::from_descriptor(descriptor);
    CHECK(remote && remote->size() == far.size());
    CHECK(rpma::remote_region::from_descriptor({}).error().code() == RPMA_E_INVAL);

    ends pair = connect(*peer, *ep, port);
    bool done = false;
    store(pair.client, remote->slice(8, 100), local->slice(0, 100), done);
    collect_until(pair.client.cq(), done);
    CHECK(far[7] == 0 && far[8] == 'n' && far[107] == 'n' && far[108] == 0);

    int code = 0;
    refused(pair.client, remote->slice(4096, 1), local->slice(0, 1), code);
    CHECK(code == RPMA_E_INVAL);

    bool sent = false;
    std::uint32_t imm = 0;
    receive_two(pair.server, target->slice(2000, 3), target->slice(2010, 3), imm);
    send_two(pair.client, local->slice(0, 3), remote->get(), sent);
    while (imm == 0 || !sent)
        CHECK(pair.server.cq().dispatch_completions() && pair.client.cq().dispatch_completions());
    CHECK(imm == 0x01020304 && far[2002] == 'n' && far[2003] == 0 && far[2012] == 'n' && far[2013] == 0);
    CHECK(std::memcmp(&far[16], "atomic!", 8) == 0);
    send_to_a_peer(pair.client);
    CHECK(remote->flush_types() == rpma::usage::flush_visibility);
    CHECK(target->native_flush_types() ==
            (pair.client.has_native_flush() ? rpma::usage::flush_visibility : rpma::usage{}));
    CHECK(local->bytes().data() == static_cast<void *>(near.data()) && local->bytes().size() == near.size());

    ibv_wc wc{};
    {
        rpma::batch batch(pair.client);
        for (std::size_t i = 0; i < 4; ++i)
            CHECK(batch.write(remote->slice(1000 + 10 * i, 10), local->slice(0, 10)));
        CHECK(batch.flush(remote->slice(1000, 40), RPMA_FLUSH_TYPE_VISIBILITY, &pair));
        CHECK(pair.client.cq().poll(wc).code() == RPMA_E_NO_COMPLETION);
    }
    CHECK(pair.client.cq().wait());
    while (pair.client.cq().poll(wc).code() == RPMA_E_NO_COMPLETION)
        ;
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == reinterpret_cast<std::uintptr_t>(&pair));
    CHECK(far[999] == 0 && far[1000] == 'n' && far[1039] == 'n' && far[1040] == 0);

    const rpma_conn_counters counted = pair.client.counters();
    CHECK(counted.writes == 5 && counted.write_bytes == 140 && counted.flushes == 2 && counted.reads == 0);
    CHECK(counted.sends == 2 && counted.send_bytes == 6 && counted.atomic_writes == 1);
    meet_on_other_queues(*peer, *ep, port, local->slice(0, 8), remote->slice(3000, 8));

    rpma::connection moved = std::move(pair.client);
    CHECK(!pair.client && moved);
    CHECK(moved.reset().ok() && pair.server.reset().ok());
#ifdef __cpp_exceptions
    try {
        (void)rpma::remote_region::from_descriptor({}).value();
        CHECK(false);
    } catch (const std::system_error &) {
    }
#endif
    return 0;
}
