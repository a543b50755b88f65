// SPDX-License-Identifier: BSD-3-Clause
// Work requests as ibv_post_send() and ibv_wr_*() build them, and the ring that holds them.
#include "verbs/send_queue.hpp"

#include <vector>

#include "cmocka_headers.hpp"

using namespace softrdma;

namespace
{

constexpr ibv_qp_cap cap{
        .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 3, .max_recv_sge = 1, .max_inline_data = 32};

struct queue {
    ibv_qp qp{};
    send_queue sq{qp, cap, false};
    post_batch batch{sq, cap};

    // Posts an unsignaled request.
    void post(std::uint64_t wr_id)
    {
        wqe *w = sq.next_free();
        assert_non_null(w);
        w->begin(wr_id, 0, IBV_WR_RDMA_WRITE);
        assert_ptr_equal(&sq.push(), w);
    }
};

ibv_send_wr request(ibv_wr_opcode opcode, std::vector<ibv_sge> &list, unsigned flags = 0)
{
    ibv_send_wr wr{};
    wr.wr_id = 7;
    wr.opcode = opcode;
    wr.send_flags = flags;
    wr.sg_list = list.data();
    wr.num_sge = static_cast<int>(list.size());
    wr.imm_data = 0x11223344;
    return wr;
}

ibv_sge sge_of(const void *data, std::uint32_t length)
{
    return {reinterpret_cast<std::uintptr_t>(data), length, 5};
}

DEFINE_TEST(both_post_interfaces_build_the_same_request, nullptr, nullptr)
{
    queue q;
    const char text[] = "sixteen letters!";
    std::vector<ibv_sge> list{sge_of(text, 9), sge_of(text + 9, 7)};
    ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, list, IBV_SEND_SIGNALED);
    wr.wr.rdma = {0x1000, 42};
    wqe one;
    one.set(wr);
    wqe &two = q.batch.add(7, IBV_SEND_SIGNALED, IBV_WR_RDMA_WRITE_WITH_IMM);
    two.set_remote(0x1000, 42);
    two.imm_data = 0x11223344;
    q.batch.set_sges(list);
    assert_int_equal(one.sg_list().size(), two.sg_list().size());
    assert_memory_equal(one.sg_list().data(), two.sg_list().data(), one.sg_list().size_bytes());
    for (const wqe *w : {&one, &two}) {
        assert_int_equal(w->wr_id, 7);
        assert_int_equal(w->op, IBV_WR_RDMA_WRITE_WITH_IMM);
        assert_int_equal(w->flags, IBV_SEND_SIGNALED);
        assert_int_equal(w->remote_addr, 0x1000);
        assert_int_equal(w->rkey, 42);
        assert_int_equal(w->imm_data, 0x11223344);
        assert_int_equal(w->length, 16);
        assert_true(w->has_valid_length());
    }
    assert_int_equal(q.batch.error(), 0);
}

DEFINE_TEST(fields_that_an_opcode_does_not_use_are_ignored, nullptr, nullptr)
{
    std::vector<ibv_sge> list;
    ibv_send_wr wr = request(IBV_WR_SEND, list);
    wr.wr.atomic = {0x1000, 1, 2, 42};
    wqe w;
    w.set(wr);
    assert_int_equal(w.remote_addr, 0);
    assert_int_equal(w.rkey, 0);
    assert_int_equal(w.imm_data, 0);
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    w.set(wr);
    assert_int_equal(w.remote_addr, 0x1000);
    assert_int_equal(w.rkey, 42);
    assert_int_equal(w.args.atomic.compare_add, 1);
    assert_int_equal(w.args.atomic.swap, 2);
    assert_int_equal(w.imm_data, 0);
}

DEFINE_TEST(posted_requests_are_counted_by_kind, nullptr, nullptr)
{
    queue q;
    const char text[] = "sixteen letters!";
    std::vector<ibv_sge> list{sge_of(text, 16)};
    for (const auto opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND}) {
        q.sq.next_free()->set(request(opcode, list));
        q.sq.complete_unqueued();
    }
    list[0].length = 5;
    q.sq.next_free()->set(request(IBV_WR_RDMA_WRITE, list));
    q.sq.push();
    const posted_total writes = q.sq.posted({IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM});
    assert_int_equal(writes.requests, 3);
    assert_int_equal(writes.bytes, 37);
    assert_int_equal(q.sq.posted({IBV_WR_SEND}).bytes, 16);
    assert_int_equal(q.sq.posted({IBV_WR_RDMA_READ}).requests, 0);
}

DEFINE_TEST(invalid_requests_are_rejected_or_complete_with_an_error, nullptr, nullptr)
{
    std::vector<ibv_sge> list{sge_of(nullptr, 33)};
    const auto refusal = [&](ibv_wr_opcode opcode, unsigned flags = 0) {
        return check_wr(request(opcode, list, flags), cap);
    };
    assert_int_equal(refusal(IBV_WR_SEND), 0);
    assert_int_equal(refusal(IBV_WR_SEND, IBV_SEND_INLINE), EINVAL); // 33 bytes, the limit is 32
    assert_int_equal(refusal(native::wr_flush), EINVAL);
    assert_int_equal(refusal(IBV_WR_BIND_MW), EINVAL); // no window
    assert_int_equal(refusal(IBV_WR_DRIVER1), EOPNOTSUPP);
    list.assign(4, sge_of(nullptr, 1)); // the limit is 3
    assert_int_equal(refusal(IBV_WR_SEND), EINVAL);
    list.assign(1, sge_of(nullptr, 8));
    assert_int_equal(refusal(IBV_WR_RDMA_READ, IBV_SEND_INLINE), EINVAL); // READ does not take inline data
    const auto status = [&](ibv_wr_opcode opcode) {
        queue q;
        q.sq.next_free()->set(request(opcode, list));
        return q.sq.push().local_status;
    };
    assert_int_equal(status(IBV_WR_ATOMIC_FETCH_AND_ADD), IBV_WC_SUCCESS);
    list.assign(1, sge_of(nullptr, 9));
    assert_int_equal(status(IBV_WR_ATOMIC_FETCH_AND_ADD), IBV_WC_LOC_LEN_ERR);
    list.clear();
    assert_int_equal(status(IBV_WR_ATOMIC_CMP_AND_SWP), IBV_WC_LOC_LEN_ERR);
    list.assign(2, sge_of(nullptr, UINT32_MAX)); // the total exceeds 32 bits
    assert_int_equal(status(IBV_WR_RDMA_WRITE), IBV_WC_LOC_LEN_ERR);
}

DEFINE_TEST(the_ring_keeps_order_and_reuses_entries, nullptr, nullptr)
{
    queue q;
    std::uint64_t next = 0;
    std::uint64_t first = 0;
    for (unsigned round = 0; round < 11; ++round) { // the ring wraps at each index
        while (q.sq.next_free() != nullptr)
            q.post(next++);
        assert_int_equal(q.sq.size(), 4);
        for (std::uint32_t i = 0; i < 4; ++i)
            assert_int_equal(q.sq[i].wr_id, first + i);
        for (unsigned n = 0; n < 3; ++n, ++first) {
            assert_int_equal(q.sq.front().wr_id, first);
            q.sq.pop_front(IBV_WC_SUCCESS);
        }
    }
    // Unpolled completions keep their entries.
    assert_int_equal(q.sq.available(), 0);
    q.sq.clear();
    assert_true(q.sq.empty());
    assert_int_equal(q.sq.available(), 4);
    assert_int_equal(q.sq.posted({IBV_WR_RDMA_WRITE}).requests, next);
}

DEFINE_TEST(a_batch_survives_a_queue_that_drains_concurrently, nullptr, nullptr)
{
    queue q;
    q.post(1);
    q.post(2);
    q.batch.start();
    q.batch.add(3, 0, IBV_WR_SEND);
    q.sq.pop_front(IBV_WC_SUCCESS);
    q.batch.add(4, 0, IBV_WR_SEND);
    q.sq.clear();
    q.batch.add(5, 0, IBV_WR_SEND);
    assert_int_equal(q.batch.error(), 0);
    for (unsigned i = 0; i < 3; ++i)
        assert_int_equal(q.sq.push().wr_id, 3 + i);
    q.batch.unlock();
    assert_int_equal(q.sq.front().wr_id, 3);
    q.sq.clear();
    const wqe *first = q.sq.next_free();
    q.sq.rewind();
    assert_ptr_not_equal(q.sq.next_free(), first);
}

} // namespace
