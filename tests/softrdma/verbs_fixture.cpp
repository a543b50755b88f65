// SPDX-License-Identifier: BSD-3-Clause
#include "verbs_fixture.hpp"
#include "wire/frame.hpp"

#include <cstring>
#include <new>

using namespace softrdma;

namespace
{

struct heap_block final : block {
    heap_block(std::byte *where, std::size_t bytes) noexcept : block(where, 0, bytes) {}
    ~heap_block() override { ::operator delete(at, std::align_val_t(page)); }
};

} // namespace

std::shared_ptr<block> private_memory::allocate(std::size_t size)
{
    auto *at = static_cast<std::byte *>(::operator new(size, std::align_val_t(page)));
    memset(at, 0, size);
    return std::make_shared<heap_block>(at, size);
}

void frame_path::transmit(const packet &header, std::span<const iovec> payload, bool)
{
    std::size_t size = 0;
    for (const iovec &piece : payload)
        size += piece.iov_len;
    const frame_headers headers = encode(header, size);
    std::vector<std::byte> frame(
            headers.bytes.begin(), headers.bytes.begin() + static_cast<std::ptrdiff_t>(headers.size));
    for (const iovec &piece : payload) {
        const auto *from = static_cast<const std::byte *>(piece.iov_base);
        frame.insert(frame.end(), from, from + piece.iov_len);
    }
    const std::lock_guard lock(peer->mutex_);
    peer->inbox_.push_back(std::move(frame));
}

bool frame_path::take(std::vector<std::byte> &frame)
{
    const std::lock_guard lock(mutex_);
    if (inbox_.empty())
        return false;
    frame = std::move(inbox_.front());
    inbox_.pop_front();
    return true;
}

bool deferred_calls::run()
{
    const bool any = !calls_.empty();
    while (!calls_.empty()) {
        reserve::prepared_call first;
        first.entry = calls_.extract(calls_.begin());
        first.entry.mapped()(first);
    }
    return any;
}

verbs_device::verbs_device() : opened(later, memory, rc_transport::make)
{
    pd.context = context();
}

int verbs_device::next_event()
{
    ibv_async_event event{};
    fcntl(opened.async.fd(), F_SETFL, O_NONBLOCK);
    return opened.async.take(&event, later) == 0 ? event.event_type : -1;
}

ibv_qp_init_attr rc_attributes(completion_queue &cq, std::uint32_t depth)
{
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq.verbs();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    return attr;
}

bool enter_rtr(queue_pair &qp, ibv_qp_attr attr)
{
    attr.port_num = 1;
    attr.qp_state = IBV_QPS_INIT;
    if (qp.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
        return false;
    attr.qp_state = IBV_QPS_RTR;
    return qp.modify(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0;
}

bool enter_rts(queue_pair &qp, ibv_qp_attr attr)
{
    if (!enter_rtr(qp, attr))
        return false;
    attr.qp_state = IBV_QPS_RTS;
    return qp.modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                   IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

void make_ready_to_send(queue_pair &qp, unsigned grants, std::uint8_t rnr_retry)
{
    ibv_qp_attr attr{};
    attr.qp_access_flags = grants;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = 1;
    attr.rnr_retry = rnr_retry;
    assert_true(enter_rts(qp, attr));
}

int post_one(queue_pair &qp, std::uint64_t wr_id, ibv_sge list)
{
    ibv_recv_wr wr{.wr_id = wr_id, .next = nullptr, .sg_list = &list, .num_sge = 1}, *bad = nullptr;
    return qp.post_receive(&wr, &bad);
}

int post_one(shared_receive_queue &srq, std::uint64_t wr_id, ibv_sge list)
{
    ibv_recv_wr wr{.wr_id = wr_id, .next = nullptr, .sg_list = &list, .num_sge = 1}, *bad = nullptr;
    return srq.post(&wr, &bad);
}

connected_pair::connected_pair(verbs_device &d) : connected_pair(d, options{}) {}

connected_pair::connected_pair(verbs_device &d, const options &o) : device(d)
{
    for (side *s : {&a, &b}) {
        s->pair = this;
        s->cq = std::make_unique<completion_queue>(d.context(), o.cqe, o.events, nullptr);
        assert_true(s->cq->valid());
        ibv_qp_init_attr attr = rc_attributes(*s->cq, 4);
        attr.srq = s == &b ? o.srq : nullptr;
        attr.cap = {.max_send_wr = o.max_send_wr,
                .max_recv_wr = 4,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 16};
        s->qp = queue_pair::create(&d.pd, attr, 0, o.start);
        assert_non_null(s->qp.get());
        s->qp->attach(s->path);
        const unsigned access = s == &b ? o.peer_access : all_access;
        s->mr = region_table::instance().add(
                &d.pd, s->memory.data(), size, reinterpret_cast<std::uintptr_t>(s->memory.data()), access);
        assert_non_null(s->mr);
    }
    a.path->peer = b.path.get();
    b.path->peer = a.path.get();
    make_ready_to_send(*b.qp, o.peer_grants, o.rnr_retry);
    make_ready_to_send(*a.qp, all_access, o.rnr_retry);
}

connected_pair::~connected_pair()
{
    for (side *s : {&a, &b}) {
        if (s->qp != nullptr)
            s->qp->destroy();
        s->qp.reset();
        device.later.run();
        region_table::instance().remove(s->mr);
    }
}

ibv_sge connected_pair::side::sge(std::uint32_t offset, std::uint32_t length) const
{
    return {reinterpret_cast<std::uintptr_t>(memory.data()) + offset, length, mr->lkey};
}

int connected_pair::side::send(ibv_wr_opcode opcode, std::uint64_t wr_id, ibv_sge list, const side &to, unsigned flags)
{
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.send_flags = flags;
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.imm_data = 0x11223344;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to.memory.data());
    wr.wr.rdma.rkey = to.mr->rkey;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        wr.wr.atomic.remote_addr = reinterpret_cast<std::uintptr_t>(to.memory.data());
        wr.wr.atomic.rkey = to.mr->rkey;
        wr.wr.atomic.compare_add = 5;
        wr.wr.atomic.swap = 9;
    }
    ibv_send_wr *bad = nullptr;
    const int error = qp->post_send(&wr, &bad);
    pair->deliver();
    return error;
}

int connected_pair::side::post_receive(std::uint64_t wr_id, std::uint32_t offset, std::uint32_t length)
{
    const int error = post_one(*qp, wr_id, sge(offset, length));
    pair->deliver();
    return error;
}

std::optional<ibv_wc> connected_pair::side::poll()
{
    pair->deliver();
    ibv_wc wc{};
    return cq->poll(1, &wc) == 1 ? std::optional(wc) : std::nullopt;
}

void connected_pair::deliver()
{
    const std::lock_guard lock(delivery);
    std::vector<std::byte> frame;
    for (bool delivered = true; std::exchange(delivered, false);) {
        for (side *s : {&a, &b}) {
            while (s->path->take(frame)) {
                packet p;
                delivered = decode(frame, p) && s->qp->receiver()->receive(*s->path, p);
                assert_true(delivered);
            }
            s->qp->receiver()->received_all();
        }
    }
}

void assert_completion(const std::optional<ibv_wc> &wc, std::uint64_t wr_id, ibv_wc_status status)
{
    assert_true(wc.has_value());
    assert_int_equal(wc->status, status);
    assert_int_equal(wc->wr_id, wr_id);
}

void assert_nothing(connected_pair::side &s)
{
    assert_false(s.poll().has_value());
}

cq_block &words_of(connected_pair::side &s)
{
    return *reinterpret_cast<cq_block *>(s.cq->memory().at);
}

void deliver(receive_queue &ring)
{
    const std::uint64_t position = ring.position();
    const qp_block &shared = ring.shared();
    auto &slot = *reinterpret_cast<receive_slot *>(
            ring.memory().at + ring_offset + position % shared.ring_capacity * shared.ring_stride);
    slot.done = position + 1;
}
