// SPDX-License-Identifier: BSD-3-Clause
// States of a queue pair, without a network.
#include "verbs_fixture.hpp"
#include "verbs/number_table.hpp"

#include <cerrno>

using namespace softrdma;

namespace
{

int enter(queue_pair &qp, ibv_qp_state state, int mask = 0)
{
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.en_sqd_async_notify = 1;
    return qp.modify(attr, IBV_QP_STATE | mask);
}

FIXTURE_TEST(device_with_pair, states_follow_in_their_order)
{
    assert_int_equal(enter(*p.a.qp, IBV_QPS_INIT), EINVAL);
    assert_int_equal(p.a.qp->qp_base.state, IBV_QPS_RTS);
    assert_int_equal(enter(*p.a.qp, IBV_QPS_ERR), 0);
    assert_int_equal(enter(*p.a.qp, IBV_QPS_RTS), EINVAL);
    assert_int_equal(enter(*p.a.qp, IBV_QPS_RESET), 0);
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 1, p.a.sge(0, 8), p.b), EINVAL);
    make_ready_to_send(*p.a.qp, p.all_access, 7);
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 1, p.a.sge(0, 8), p.b), 0);
    assert_completion(p.a.poll(), 1, IBV_WC_SUCCESS);
}

FIXTURE_TEST(device_with_pair, an_error_flushes_both_queues)
{
    assert_int_equal(p.a.post_receive(10, 0, 8), 0);
    assert_int_equal(p.a.send(IBV_WR_SEND, 1, p.a.sge(0, 8), p.b), 0);
    assert_int_equal(enter(*p.a.qp, IBV_QPS_ERR), 0);
    assert_completion(p.a.poll(), 1, IBV_WC_WR_FLUSH_ERR);
    assert_completion(p.a.poll(), 10, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(p.a.send(IBV_WR_SEND, 2, p.a.sge(0, 8), p.b), 0);
    assert_completion(p.a.poll(), 2, IBV_WC_WR_FLUSH_ERR);
    assert_nothing(p.a);
}

FIXTURE_TEST(device_with_pair, a_reset_discards_posted_requests)
{
    assert_int_equal(p.a.post_receive(10, 0, 8), 0);
    assert_int_equal(p.a.send(IBV_WR_SEND, 1, p.a.sge(0, 8), p.b), 0);
    assert_int_equal(enter(*p.a.qp, IBV_QPS_RESET), 0);
    assert_nothing(p.a);
    make_ready_to_send(*p.a.qp, p.all_access, 7);
    assert_nothing(p.a);
    assert_int_equal(p.b.send(IBV_WR_SEND, 2, p.b.sge(0, 8), p.a), 0);
    assert_nothing(p.b); // the receive was discarded, too
}

FIXTURE_TEST(device_with_pair, a_drained_queue_starts_no_request)
{
    assert_int_equal(p.a.send(IBV_WR_SEND, 1, p.a.sge(0, 8), p.b), 0);
    assert_int_equal(enter(*p.a.qp, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 2, p.a.sge(0, 8), p.b), 0);
    assert_nothing(p.a);
    assert_int_equal(device.next_event(), -1);
    assert_int_equal(p.b.post_receive(10, 0, 8), 0);
    assert_completion(p.a.poll(), 1, IBV_WC_SUCCESS); // it was already started
    assert_nothing(p.a);
    assert_int_equal(device.next_event(), IBV_EVENT_SQ_DRAINED);
    assert_int_equal(enter(*p.a.qp, IBV_QPS_RTS), 0);
    assert_completion(p.a.poll(), 2, IBV_WC_SUCCESS);
}

DEFINE_TEST(a_lost_peer_sends_no_response, nullptr, nullptr)
{
    verbs_device device;
    for (const bool destroyed : {false, true}) {
        connected_pair p(device);
        if (destroyed) {
            assert_int_equal(p.b.qp->destroy(), 0);
            p.b.qp.reset();
        } else {
            assert_int_equal(enter(*p.b.qp, IBV_QPS_ERR), 0);
        }
        assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 1, p.a.sge(0, 8), p.b), 0);
        assert_completion(p.a.poll(), 1, IBV_WC_RETRY_EXC_ERR);
        assert_int_equal(p.a.qp->qp_base.state, IBV_QPS_ERR);
    }
}

class unused_path final : public packet_path
{
public:
    void transmit(const packet &, std::span<const iovec>, bool) override
    {
        fail_msg("unexpected packet: requests use shared memory");
    }
    void push() override {}
    bool congested() override { return false; }
    std::size_t send_space() override { return 0; }
    void start_timer(std::chrono::microseconds) override {}
    void start_answer_timer(std::chrono::microseconds) override {}
    const char *name() const noexcept override { return "none"; }
    void ends(sockaddr_storage &, sockaddr_storage &) const override {}
    void cut() noexcept override {}
};

FIXTURE_TEST(device_with_pair, the_loss_of_an_earlier_path_is_ignored)
{
    const auto earlier = std::make_shared<unused_path>(), present = std::make_shared<unused_path>();
    p.a.qp->attach(earlier);
    p.a.qp->attach(nullptr);
    p.a.qp->path_lost(earlier.get());
    assert_int_equal(p.a.send(IBV_WR_SEND, 1, p.a.sge(0, 8), p.b), 0); // waits for a receive
    p.a.qp->attach(present);
    p.a.qp->path_lost(earlier.get());
    assert_nothing(p.a);
    p.a.qp->path_lost(present.get());
    assert_completion(p.a.poll(), 1, IBV_WC_RETRY_EXC_ERR);
}

FIXTURE_TEST(device_with_pair, a_number_is_found_until_its_queue_pair_is_destroyed)
{
    const std::uint32_t number = p.a.qp->qp_base.qp_num;
    assert_ptr_equal(number_table::instance().find(number).get(), p.a.qp.get());
    assert_ptr_not_equal(number_table::instance().find(p.b.qp->qp_base.qp_num).get(), p.a.qp.get());
    p.a.qp->destroy();
    assert_null(number_table::instance().find(number).get());
    p.a.qp.reset();
}

} // namespace
