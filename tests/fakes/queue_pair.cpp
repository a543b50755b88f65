// SPDX-License-Identifier: BSD-3-Clause
#include "queue_pair.hpp"

#include <cstddef>
#include <cstring>
#include <vector>

#include "completion.hpp"

// Queue pairs and shared receive queues; posted work is recorded.
namespace
{

using fake::call;
using fake::null;
using fake::the;

// Offset of wr_flush since rdma-core 45. In older headers struct ibv_qp_ex ends before it.
constexpr std::size_t wr_flush_offset = offsetof(ibv_qp_ex, wr_atomic_write) + sizeof(void *);

using wr_flush_function = void(
        ibv_qp_ex *, uint32_t rkey, uint64_t remote_addr, size_t length, uint8_t placement, uint8_t level);
using wr_atomic_write_function = void(ibv_qp_ex *, uint32_t rkey, uint64_t remote_addr, const void *data);

struct qp : fake::object {
    qp() : object(FAKE_QP) {}

    ibv_qp_ex &extended() { return *reinterpret_cast<ibv_qp_ex *>(room); }
    ibv_qp &face() { return extended().qp_base; }

    alignas(ibv_qp_ex) unsigned char room[512] = {};
    bool is_extended = false;
    // Held from wr_start to wr_complete, as real providers do.
    std::mutex batch;
    std::vector<fake_work> batched;
};

struct srq : fake::object {
    srq() : object(FAKE_SRQ) {}
    ibv_srq face{};
};

qp &of(ibv_qp_ex *extended)
{
    const std::lock_guard<std::mutex> locked(the().mutex);
    return *static_cast<qp *>(the().peek(&extended->qp_base));
}

fake_work record_send(ibv_qp *queue, const ibv_send_wr *wr, bool has_bad_wr)
{
    fake_work work{};
    work.kind = FAKE_WORK_SEND;
    work.queue = queue;
    work.wr_id = wr->wr_id;
    work.opcode = wr->opcode;
    work.flags = wr->send_flags;
    // Copies only the fields that a provider may read for the opcode.
    if (wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        work.imm_data = wr->imm_data;
    if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM) {
        work.remote_addr = wr->wr.rdma.remote_addr;
        work.rkey = wr->wr.rdma.rkey;
    }
    work.has_next = wr->next != nullptr;
    work.has_bad_wr = has_bad_wr;
    work.num_sge = wr->num_sge;
    if (wr->num_sge > 0)
        work.sge = wr->sg_list[0];
    if ((wr->send_flags & IBV_SEND_INLINE) != 0 && work.sge.length <= sizeof(work.data))
        std::memcpy(work.data, reinterpret_cast<const void *>(work.sge.addr), work.sge.length);
    return work;
}

int post_send(ibv_qp *queue, ibv_send_wr *wr, ibv_send_wr **bad_wr)
{
    call c("ibv_post_send");
    c.find<qp>(queue);
    if (c.error() != 0) {
        *bad_wr = wr;
        return c.error();
    }
    unsigned room = the().device.send_room;
    for (; wr != nullptr; wr = wr->next) {
        if (the().device.send_room != 0 && room-- == 0) {
            *bad_wr = wr;
            return ENOMEM;
        }
        the().work.push_back(record_send(queue, wr, bad_wr != nullptr));
    }
    return 0;
}

int record_receive(call &c, fake_work_kind kind, void *queue, const ibv_recv_wr *wr, ibv_recv_wr **bad_wr)
{
    c.find<fake::object>(queue);
    if (c.error() != 0)
        return c.error();
    fake_work work{};
    work.kind = kind;
    work.queue = queue;
    work.wr_id = wr->wr_id;
    work.has_next = wr->next != nullptr;
    work.has_bad_wr = bad_wr != nullptr;
    work.num_sge = wr->num_sge;
    if (wr->num_sge > 0)
        work.sge = wr->sg_list[0];
    the().work.push_back(work);
    return 0;
}

int post_recv(ibv_qp *queue, ibv_recv_wr *wr, ibv_recv_wr **bad_wr)
{
    call c("ibv_post_recv");
    if (queue->srq != nullptr)
        return EINVAL;
    return record_receive(c, FAKE_WORK_RECV, queue, wr, bad_wr);
}

int post_srq_recv(ibv_srq *queue, ibv_recv_wr *wr, ibv_recv_wr **bad_wr)
{
    call c("ibv_post_srq_recv");
    return record_receive(c, FAKE_WORK_SRQ_RECV, queue, wr, bad_wr);
}

void wr_start(ibv_qp_ex *extended)
{
    call("ibv_wr_start", call::kind::infallible);
    qp &self = of(extended);
    self.batch.lock();
    self.batched.clear();
}

fake_work &next_in_batch(ibv_qp_ex *extended, fake_work_kind kind, uint32_t rkey, uint64_t remote_addr)
{
    qp &self = of(extended);
    fake_work work{};
    work.kind = kind;
    work.queue = &extended->qp_base;
    work.wr_id = extended->wr_id;
    work.flags = extended->wr_flags;
    work.rkey = rkey;
    work.remote_addr = remote_addr;
    self.batched.push_back(work);
    return self.batched.back();
}

void wr_classic(ibv_qp_ex *extended, ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr, uint32_t imm_data)
{
    fake_work &work = next_in_batch(extended, FAKE_WORK_SEND, rkey, remote_addr);
    work.opcode = opcode;
    work.imm_data = imm_data;
}

void wr_rdma_read(ibv_qp_ex *extended, uint32_t rkey, uint64_t remote_addr)
{
    wr_classic(extended, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}

void wr_rdma_write(ibv_qp_ex *extended, uint32_t rkey, uint64_t remote_addr)
{
    wr_classic(extended, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

void wr_rdma_write_imm(ibv_qp_ex *extended, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
    wr_classic(extended, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm_data);
}

void wr_send(ibv_qp_ex *extended)
{
    wr_classic(extended, IBV_WR_SEND, 0, 0, 0);
}

void wr_send_imm(ibv_qp_ex *extended, __be32 imm_data)
{
    wr_classic(extended, IBV_WR_SEND_WITH_IMM, 0, 0, imm_data);
}

void wr_set_sge_list(ibv_qp_ex *extended, size_t count, const ibv_sge *list)
{
    fake_work &work = of(extended).batched.back();
    work.num_sge = static_cast<int>(count);
    if (count > 0)
        work.sge = list[0];
}

void wr_set_inline_data(ibv_qp_ex *extended, void *data, size_t length)
{
    fake_work &work = of(extended).batched.back();
    work.flags |= IBV_SEND_INLINE;
    if (length <= sizeof(work.data))
        std::memcpy(work.data, data, length);
}

void wr_flush(ibv_qp_ex *extended, uint32_t rkey, uint64_t remote_addr, size_t length, uint8_t placement, uint8_t level)
{
    fake_work &work = next_in_batch(extended, FAKE_WORK_FLUSH, rkey, remote_addr);
    work.flush_length = length;
    work.flush_placement = placement;
    work.flush_level = level;
}

void wr_atomic_write(ibv_qp_ex *extended, uint32_t rkey, uint64_t remote_addr, const void *data)
{
    fake_work &work = next_in_batch(extended, FAKE_WORK_ATOMIC_WRITE, rkey, remote_addr);
    std::memcpy(work.data, data, sizeof(work.data));
}

// Replaces functions that were not requested: a provider that is older than the header has other data there.
void not_granted()
{
    const std::lock_guard<std::mutex> locked(the().mutex);
    the().problem("a native operation on a queue pair created without it");
}

int wr_complete(ibv_qp_ex *extended)
{
    qp &self = of(extended);
    const call c("ibv_wr_complete");
    if (self.batched.empty())
        the().problem("ibv_wr_complete of a batch without operations");
    else if (c.error() == 0)
        the().work.insert(the().work.end(), self.batched.begin(), self.batched.end());
    self.batch.unlock();
    return c.error();
}

void fill_extended(qp &created, uint64_t granted)
{
    ibv_qp_ex &extended = created.extended();
    const fake_traits &device = the().device;
    const auto foreign = reinterpret_cast<void *>(not_granted);
    extended.wr_start = wr_start;
    extended.wr_complete = wr_complete;
    if ((granted & IBV_QP_EX_WITH_SEND) != 0) { // the library requests it together with all other classic operations
        extended.wr_rdma_read = wr_rdma_read;
        extended.wr_rdma_write = wr_rdma_write;
        extended.wr_rdma_write_imm = wr_rdma_write_imm;
        extended.wr_send = wr_send;
        extended.wr_send_imm = wr_send_imm;
        extended.wr_set_sge_list = wr_set_sge_list;
        extended.wr_set_inline_data = wr_set_inline_data;
    }

    void *atomic_write = foreign;
    if ((granted & FAKE_SEND_OPS_ATOMIC_WRITE) != 0)
        atomic_write = device.without_wr_atomic_write ? nullptr : reinterpret_cast<void *>(wr_atomic_write);
    std::memcpy(created.room + wr_flush_offset - sizeof(void *), &atomic_write, sizeof(atomic_write));

    void *flush = foreign;
    if ((granted & FAKE_SEND_OPS_FLUSH) != 0)
        flush = device.without_wr_flush ? nullptr : reinterpret_cast<void *>(wr_flush);
    std::memcpy(created.room + wr_flush_offset, &flush, sizeof(flush));
}

} // namespace

namespace fake
{

ibv_qp *make_qp(call &c, ibv_context *context, const ibv_qp_init_attr_ex &attributes)
{
    const fake_traits &device = the().device;
    const bool wants_ops = (attributes.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    const uint64_t ops = wants_ops ? attributes.send_ops_flags : 0;
    const bool capable = (device.capabilities >> FAKE_CAP_FLUSH_GLOBAL) != 0;
    if (wants_ops && device.send_ops_error != 0)
        return null<ibv_qp>(device.send_ops_error);
    if ((ops != 0 && !capable) || attributes.pd->context != context)
        return null<ibv_qp>(EINVAL);

    auto created = std::make_unique<qp>();
    ibv_qp &face = created->face();
    face.context = context;
    face.pd = attributes.pd;
    face.send_cq = attributes.send_cq;
    face.recv_cq = attributes.recv_cq;
    face.srq = attributes.srq;
    face.qp_num = static_cast<uint32_t>(the().next_serial);
    face.qp_type = attributes.qp_type;
    created->is_extended = ops != 0 || device.extended_qps;
    fill_extended(*created, ops);
    for (const void *parent : {static_cast<const void *>(attributes.pd), static_cast<const void *>(attributes.send_cq),
                 static_cast<const void *>(attributes.recv_cq)})
        the().depend(created.get(), parent, c.name());
    if (attributes.srq != nullptr)
        the().depend(created.get(), attributes.srq, c.name());
    ibv_qp *const handle = &face;
    the().add(handle, std::move(created));
    return handle;
}

void configure_queue_pair(ibv_context_ops &ops)
{
    ops.post_send = post_send;
    ops.post_recv = post_recv;
    ops.post_srq_recv = post_srq_recv;
}

} // namespace fake

extern "C" {

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *queue)
{
    call c("ibv_qp_to_qp_ex", call::kind::infallible);
    qp *const found = c.find<qp>(queue);
    return found != nullptr && found->is_extended ? &found->extended() : nullptr;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *domain, struct ibv_srq_init_attr *attributes)
{
    const call c("ibv_create_srq");
    the().seen.srq_attributes = *attributes;
    if (c.error() != 0)
        return null<ibv_srq>(c.error());
    auto created = std::make_unique<srq>();
    created->face.context = domain->context;
    created->face.pd = domain;
    the().depend(created.get(), domain, c.name());
    return the().add_face(std::move(created));
}

int ibv_destroy_srq(struct ibv_srq *queue)
{
    return call("ibv_destroy_srq").destroy(queue);
}

} // extern "C"
