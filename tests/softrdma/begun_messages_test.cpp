// SPDX-License-Identifier: BSD-3-Clause
// White-box: the receive of a shared queue that a message has taken, when the message never ends. The queue pair is on
// the transport of the network, and the test plays its peer, packet by packet.
#include "verbs_fixture.hpp"

#include <array>
#include <set>

using namespace softrdma;

namespace
{

constexpr std::uint32_t receives = 3;
constexpr std::uint32_t size = 256;
constexpr std::uint32_t first_psn = psn_mask; // the next number is 0

struct receiver {
    verbs_device device;
    std::shared_ptr<idle_path> path = std::make_shared<idle_path>();
    std::unique_ptr<completion_queue> cq;
    std::unique_ptr<shared_receive_queue> srq;
    std::shared_ptr<queue_pair> qp;
    std::array<std::byte, receives * size> bytes{};
    ibv_mr *mr = nullptr;
    std::uint64_t next_id = 0;
    std::set<std::uint64_t> found; // receives that completed or are queued
    std::uint32_t psn = first_psn;

    receiver()
    {
        cq = std::make_unique<completion_queue>(device.context(), 16, nullptr, nullptr);
        ibv_srq_init_attr shared{.srq_context = nullptr, .attr = {.max_wr = receives, .max_sge = 1, .srq_limit = 0}};
        srq = std::make_unique<shared_receive_queue>(&device.pd, shared);
        mr = region_table::instance().add(&device.pd, bytes.data(), bytes.size(),
                reinterpret_cast<std::uintptr_t>(bytes.data()), IBV_ACCESS_LOCAL_WRITE);
        assert_non_null(mr);
        while (post())
            ;
        assert_int_equal(next_id, receives);
        ibv_qp_init_attr attr = rc_attributes(*cq, 1);
        attr.srq = srq.get();
        qp = queue_pair::create(&device.pd, attr);
        assert_non_null(qp.get());
        connect();
    }
    ~receiver()
    {
        destroy();
        region_table::instance().remove(mr);
    }

    void connect()
    {
        qp->attach(path);
        ibv_qp_attr attr{};
        attr.path_mtu = IBV_MTU_1024;
        attr.rq_psn = psn = first_psn;
        assert_true(enter_rtr(*qp, attr));
    }
    void destroy()
    {
        if (qp == nullptr)
            return;
        assert_int_equal(qp->destroy(), 0);
        qp.reset();
        while (device.later.run())
            ;
    }
    void change_state(ibv_qp_state to)
    {
        ibv_qp_attr attr{};
        attr.qp_state = to;
        assert_int_equal(qp->modify(attr, IBV_QP_STATE), 0);
    }

    bool post()
    {
        const ibv_sge list{reinterpret_cast<std::uintptr_t>(bytes.data()), size, mr->lkey};
        const bool posted = post_one(*srq, next_id, list) == 0;
        next_id += posted ? 1 : 0;
        return posted;
    }
    void arrives(opcode op)
    {
        const std::array<std::byte, 8> payload{};
        const packet p{.op = op, .dest_qpn = qp->qp_base.qp_num, .psn = psn, .payload = payload};
        assert_true(qp->receiver()->receive(*path, p));
        qp->receiver()->received_all();
        psn = is_last(op) ? (psn + 1) & psn_mask : psn;
    }
    void expect_completed(std::uint32_t count)
    {
        ibv_wc wc{};
        for (std::uint32_t i = 0; i < count; ++i) {
            assert_int_equal(cq->poll(1, &wc), 1);
            assert_true(found.insert(wc.wr_id).second);
        }
        assert_int_equal(cq->poll(1, &wc), 0);
    }
    // Checks that each receive that has not completed is queued, exactly once.
    void expect_others_queued(std::uint64_t posted = receives)
    {
        expect_completed(0);
        while (const auto left = srq->take())
            assert_true(found.insert(left->wr_id).second);
        assert_int_equal(found.size(), posted);
    }
};

DEFINE_TEST(a_destroyed_queue_pair_returns_it, nullptr, nullptr)
{
    receiver r;
    r.arrives(opcode::send_only);
    r.arrives(opcode::send_first);
    r.expect_completed(1);
    r.destroy();
    r.expect_others_queued();
}

DEFINE_TEST(a_reset_returns_it_and_the_error_state_completes_it, nullptr, nullptr)
{
    for (const bool fails : {false, true}) {
        receiver r;
        r.arrives(opcode::send_first);
        r.change_state(fails ? IBV_QPS_ERR : IBV_QPS_RESET);
        r.expect_completed(fails ? 1 : 0);
        r.destroy();
        r.expect_others_queued();
    }
}

DEFINE_TEST(the_next_connection_begins_with_a_message_of_its_own, nullptr, nullptr)
{
    receiver r;
    r.arrives(opcode::send_first);
    r.change_state(IBV_QPS_RESET);
    r.connect();
    r.arrives(opcode::send_first);
    r.arrives(opcode::send_last);
    r.expect_completed(1);
    r.destroy();
    r.expect_others_queued();
}

// The peer may have been killed. Other queue pairs get the receive before the program destroys this one.
DEFINE_TEST(a_lost_path_returns_it, nullptr, nullptr)
{
    receiver r;
    r.arrives(opcode::send_first);
    r.qp->path_lost(r.path.get());
    r.expect_others_queued();
    r.destroy();
    assert_false(r.srq->take().has_value());
}

// While the message can still end, its receive occupies a slot of the queue.
DEFINE_TEST(the_program_cannot_post_in_its_place, nullptr, nullptr)
{
    receiver r;
    r.arrives(opcode::send_first);
    assert_false(r.post());
    r.arrives(opcode::send_last);
    assert_true(r.post());
    r.arrives(opcode::send_first);
    assert_false(r.post());
    r.expect_completed(1);
    r.destroy();
    assert_false(r.post());
    r.expect_others_queued(receives + 1);
}

} // namespace
