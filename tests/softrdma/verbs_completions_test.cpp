// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: entries that messages of peers use, and use by two threads.
#include "verbs_fixture.hpp"

#include <thread>

using namespace softrdma;

namespace
{

// Peers were killed after they had counted messages and before they delivered them.
DEFINE_TEST(undelivered_messages_of_killed_peers_use_no_entry, nullptr, nullptr)
{
    verbs_device device;
    connected_pair p(device, {.cqe = 4}); // fewer entries than requests, so that entries are counted
    for (unsigned round = 0; round < 3; ++round) {
        words_of(p.a).used.fetch_add(4);
        for (std::uint64_t i = 1; i <= 4; ++i)
            assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, i, p.a.sge(0, 8), p.b), 0);
        assert_int_equal(words_of(p.a).used, 4);
        for (std::uint64_t i = 1; i <= 4; ++i)
            assert_completion(p.a.poll(), i, IBV_WC_SUCCESS);
        assert_int_equal(words_of(p.a).used, 0);
    }
    assert_int_equal(device.next_event(), -1);
}

// Delivered messages occupy entries until they are polled.
DEFINE_TEST(delivered_messages_use_entries, nullptr, nullptr)
{
    verbs_device device;
    connected_pair p(device, {.cqe = 4});
    receive_queue &ring = p.b.qp->receives();
    ring.borrow();
    words_of(p.b).used.fetch_add(4); // one of these is delivered below
    assert_int_equal(p.b.post_receive(7, 0, 8), 0);
    deliver(ring);
    words_of(p.b).announce(ring.shared().cq_bit);
    for (std::uint64_t i = 1; i <= 3; ++i)
        assert_int_equal(p.b.send(IBV_WR_RDMA_WRITE, i, p.b.sge(0, 8), p.a), 0);
    assert_int_equal(device.next_event(), -1);
    assert_int_equal(p.b.send(IBV_WR_RDMA_WRITE, 4, p.b.sge(0, 8), p.a), 0);
    assert_int_equal(device.next_event(), IBV_EVENT_CQ_ERR);
    device.later.run();
}

// Each thread sends to the other and polls for its messages.
DEFINE_TEST(two_threads_can_use_both_ends, nullptr, nullptr)
{
    constexpr std::uint64_t messages = 2000;
    verbs_device device;
    connected_pair p(device);
    const auto talk = [&](connected_pair::side &own, const connected_pair::side &other) {
        std::uint64_t sent = 0;
        std::uint64_t received = 0;
        std::uint64_t posted = 0;
        while (received < messages || sent < messages) {
            for (; posted - received < 4 && posted < messages; ++posted) {
                if (own.post_receive(posted, 8, 8) != 0)
                    return false;
            }
            if (sent < messages && own.send(IBV_WR_SEND, sent, own.sge(0, 8), other) == 0)
                ++sent;
            for (auto wc = own.poll(); wc; wc = own.poll()) {
                if (wc->status != IBV_WC_SUCCESS || (wc->opcode == IBV_WC_RECV && wc->wr_id != received))
                    return false;
                received += wc->opcode == IBV_WC_RECV ? 1u : 0u;
            }
        }
        while (own.qp->sending())
            own.poll();
        return true;
    };
    bool other_good = false;
    std::thread other([&] { other_good = talk(p.b, p.a); });
    const bool good = talk(p.a, p.b);
    other.join();
    assert_true(good);
    assert_true(other_good);
}

} // namespace
