// SPDX-License-Identifier: BSD-3-Clause
// Effects and completions of requests between verbs objects inside one process.
#include "verbs/mw.hpp"
#include "verbs_fixture.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

using namespace softrdma;

namespace
{

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

FIXTURE_TEST(device_with_pair, memory_is_written_and_read)
{
    set_word(p.a, 0x1122334455667788);
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 1, p.a.sge(0, 4096), p.b), 0);
    assert_completion(p.a.poll(), 1, IBV_WC_SUCCESS);
    assert_memory_equal(p.a.memory.data(), p.b.memory.data(), p.size);
    assert_int_equal(p.a.send(IBV_WR_RDMA_READ, 2, p.a.sge(64, 8), p.b), 0);
    const auto wc = p.a.poll();
    assert_completion(wc, 2, IBV_WC_SUCCESS);
    assert_int_equal(wc->opcode, IBV_WC_RDMA_READ);
    assert_int_equal(word(p.a, 64), 0x1122334455667788);
    assert_nothing(p.b);
}

FIXTURE_TEST(device_with_pair, atomic_operations_exchange_words)
{
    set_word(p.b, 5);
    assert_int_equal(p.a.send(IBV_WR_ATOMIC_CMP_AND_SWP, 1, p.a.sge(64, 8), p.b), 0);
    assert_completion(p.a.poll(), 1, IBV_WC_SUCCESS);
    assert_int_equal(word(p.a, 64), 5);
    assert_int_equal(word(p.b), 9);
    assert_int_equal(p.a.send(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, p.a.sge(64, 8), p.b), 0);
    assert_completion(p.a.poll(), 2, IBV_WC_SUCCESS);
    assert_int_equal(word(p.a, 64), 9);
    assert_int_equal(word(p.b), 14);
}

FIXTURE_TEST(device_with_pair, a_message_consumes_a_receive)
{
    set_word(p.a, 77);
    assert_int_equal(p.b.post_receive(10, 128, 64), 0);
    assert_int_equal(p.b.post_receive(11, 256, 64), 0);
    assert_int_equal(p.a.send(IBV_WR_SEND_WITH_IMM, 1, p.a.sge(0, 8), p.b, 0), 0);
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE_WITH_IMM, 2, p.a.sge(0, 8), p.b, 0), 0);
    assert_nothing(p.a); // unsignaled
    auto wc = p.b.poll();
    assert_completion(wc, 10, IBV_WC_SUCCESS);
    assert_int_equal(wc->opcode, IBV_WC_RECV);
    assert_int_equal(wc->byte_len, 8);
    assert_int_equal(wc->imm_data, 0x11223344);
    assert_int_equal(wc->qp_num, p.b.qp->qp_base.qp_num);
    assert_int_equal(word(p.b, 128), 77);
    wc = p.b.poll();
    assert_completion(wc, 11, IBV_WC_SUCCESS);
    assert_int_equal(wc->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(word(p.b), 77);
}

FIXTURE_TEST(device_with_pair, a_message_waits_for_its_receive)
{
    assert_int_equal(p.a.send(IBV_WR_SEND, 1, p.a.sge(0, 8), p.b), 0);
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 2, p.a.sge(0, 8), p.b), 0); // must not overtake the SEND
    for (int i = 0; i < 20; ++i)
        assert_nothing(p.a);
    assert_int_equal(p.b.post_receive(10, 128, 64), 0);
    assert_completion(p.a.poll(), 1, IBV_WC_SUCCESS);
    assert_completion(p.a.poll(), 2, IBV_WC_SUCCESS);
    assert_completion(p.b.poll(), 10, IBV_WC_SUCCESS);
}

DEFINE_TEST(a_message_is_retried_up_to_the_limit, nullptr, nullptr)
{
    verbs_device device;
    connected_pair p(device, {.rnr_retry = 2});
    assert_int_equal(p.a.send(IBV_WR_SEND, 1, p.a.sge(0, 8), p.b), 0);
    assert_nothing(p.a);
    assert_completion(p.a.poll(), 1, IBV_WC_RNR_RETRY_EXC_ERR);
    assert_int_equal(p.a.qp->qp_base.state, IBV_QPS_ERR);
}

FIXTURE_TEST(device_with_pair, a_message_is_not_longer_than_its_receive)
{
    assert_int_equal(p.b.post_receive(10, 128, 7), 0);
    assert_int_equal(p.b.post_receive(11, 128, 7), 0);
    assert_int_equal(p.a.send(IBV_WR_SEND, 1, p.a.sge(0, 8), p.b), 0);
    assert_completion(p.a.poll(), 1, IBV_WC_REM_INV_REQ_ERR);
    assert_completion(p.b.poll(), 10, IBV_WC_LOC_LEN_ERR);
    device.later.run();
    assert_int_equal(p.b.qp->qp_base.state, IBV_QPS_ERR);
    assert_completion(p.b.poll(), 11, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(word(p.b, 128), 0);
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

FIXTURE_TEST(device_with_pair, requests_with_unregistered_local_memory_are_rejected)
{
    ibv_sge wrong = p.a.sge(0, 8);
    wrong.lkey ^= 1;
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 1, wrong, p.b), 0);
    assert_completion(p.a.poll(), 1, IBV_WC_LOC_PROT_ERR);
}

DEFINE_TEST(the_send_queue_fills, nullptr, nullptr)
{
    verbs_device device;
    connected_pair p(device, {.max_send_wr = 3});
    for (std::uint64_t i = 1; i <= 2; ++i)
        assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, i, p.a.sge(0, 8), p.b, 0), 0);
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 3, p.a.sge(0, 8), p.b), 0);
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 4, p.a.sge(0, 8), p.b), ENOMEM);
    assert_completion(p.a.poll(), 3, IBV_WC_SUCCESS);
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 5, p.a.sge(0, 8), p.b), 0);
    assert_completion(p.a.poll(), 5, IBV_WC_SUCCESS);
}

DEFINE_TEST(receives_may_be_shared, nullptr, nullptr)
{
    verbs_device device;
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
    shared_receive_queue srq(&device.pd, attr);
    {
        connected_pair p(device, {.srq = &srq});
        assert_int_equal(p.a.send(IBV_WR_SEND, 1, p.a.sge(0, 8), p.b), 0);
        ibv_sge list = p.b.sge(64, 64);
        ibv_recv_wr wr{};
        wr.wr_id = 10;
        wr.sg_list = &list;
        wr.num_sge = 1;
        ibv_recv_wr *bad = nullptr;
        assert_int_equal(srq.post(&wr, &bad), 0);
        assert_completion(p.a.poll(), 1, IBV_WC_SUCCESS);
        assert_completion(p.b.poll(), 10, IBV_WC_SUCCESS);
        assert_int_equal(p.b.post_receive(11, 0, 8), EINVAL);
    }
    assert_int_equal(srq.users.load(), 0);
}

int post_bind(connected_pair::side &owner, ibv_mw *mw, std::uint32_t key)
{
    ibv_send_wr wr{};
    wr.wr_id = 20;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = key;
    wr.bind_mw.bind_info = {
            owner.mr, reinterpret_cast<std::uintptr_t>(owner.memory.data()), 64, IBV_ACCESS_REMOTE_WRITE};
    ibv_send_wr *bad = nullptr;
    return owner.qp->post_send(&wr, &bad);
}

DEFINE_TEST(a_window_is_bound_used_and_invalidated, nullptr, nullptr)
{
    verbs_device device;
    connected_pair p(device, {.peer_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND});
    ibv_mw *const mw = window_table::instance().add(&device.pd, IBV_MW_TYPE_2);
    assert_non_null(mw);
    const std::uint32_t key = ibv_inc_rkey(mw->rkey);
    assert_int_equal(post_bind(p.b, mw, key), 0);
    auto wc = p.b.poll();
    assert_completion(wc, 20, IBV_WC_SUCCESS);
    assert_int_equal(wc->opcode, IBV_WC_BIND_MW);
    assert_int_equal(region_table::instance().totals().windows, 1);

    ibv_mr through_window{};
    through_window.rkey = key;
    ibv_mr *const region = std::exchange(p.b.mr, &through_window);
    set_word(p.a, 99);
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 1, p.a.sge(0, 8), p.b), 0);
    assert_completion(p.a.poll(), 1, IBV_WC_SUCCESS);
    assert_int_equal(word(p.b), 99);
    p.b.mr = region;
    assert_int_equal(region_table::instance().remove(p.b.mr), EBUSY);

    assert_int_equal(p.b.post_receive(10, 128, 64), 0);
    ibv_sge list = p.a.sge(0, 8);
    ibv_send_wr wr{};
    wr.wr_id = 2;
    wr.opcode = IBV_WR_SEND_WITH_INV;
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.invalidate_rkey = key;
    ibv_send_wr *bad = nullptr;
    assert_int_equal(p.a.qp->post_send(&wr, &bad), 0);
    wc = p.b.poll();
    assert_completion(wc, 10, IBV_WC_SUCCESS);
    assert_int_equal(wc->wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(wc->invalidated_rkey, key);
    p.b.mr = &through_window;
    assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 3, p.a.sge(0, 8), p.b), 0);
    assert_completion(p.a.poll(), 3, IBV_WC_REM_ACCESS_ERR);
    p.b.mr = region;
    assert_int_equal(window_table::instance().remove(mw), 0);
}

} // namespace
