// SPDX-License-Identifier: BSD-3-Clause
// States and access rights of a queue pair, without a network.
#include "verbs_fixture.hpp"
#include "verbs/number_table.hpp"

#include <cstring>

using namespace softrdma;

namespace
{

int enter(queue_pair &qp, ibv_qp_state state)
{
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return qp.modify(attr, IBV_QP_STATE);
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

std::uint64_t word(const connected_pair::side &s, std::size_t offset = 0)
{
    std::uint64_t value = 0;
    memcpy(&value, s.memory.data() + offset, sizeof(value));
    return value;
}

void set_word(connected_pair::side &s, std::uint64_t value)
{
    memcpy(s.memory.data(), &value, sizeof(value));
}

// Covers missing access rights of the queue pair and of the region, and a region that is too short.
DEFINE_TEST(requests_without_access_rights_are_rejected, nullptr, nullptr)
{
    verbs_device device;
    const auto refused = [&](const connected_pair::options &o, ibv_wr_opcode opcode, std::uint32_t length) {
        connected_pair p(device, o);
        set_word(p.a, 3);
        set_word(p.b, 4);
        assert_int_equal(p.a.send(opcode, 1, p.a.sge(0, length), p.b), 0);
        assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 2, p.a.sge(0, 8), p.b), 0);
        assert_completion(p.a.poll(), 1, IBV_WC_REM_ACCESS_ERR);
        assert_completion(p.a.poll(), 2, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(word(p.a), 3);
        assert_int_equal(word(p.b), 4);
    };
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        refused({.peer_access = IBV_ACCESS_LOCAL_WRITE}, opcode, 8);
        refused({.peer_grants = 0}, opcode, 8);
    }
    connected_pair p(device);
    ibv_sge two[2] = {p.a.sge(0, 4096), p.a.sge(0, 1)};
    ibv_send_wr wr{};
    wr.sg_list = two;
    wr.num_sge = 2;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {reinterpret_cast<std::uintptr_t>(p.b.memory.data()), p.b.mr->rkey};
    ibv_send_wr *bad = nullptr;
    assert_int_equal(p.a.qp->post_send(&wr, &bad), 0);
    assert_completion(p.a.poll(), 0, IBV_WC_REM_ACCESS_ERR);
}

FIXTURE_TEST(device_with_pair, the_loss_of_an_earlier_path_is_ignored)
{
    const auto earlier = std::make_shared<idle_path>(), present = std::make_shared<idle_path>();
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
