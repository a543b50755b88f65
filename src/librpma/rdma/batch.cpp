// SPDX-License-Identifier: BSD-3-Clause
#include "rdma/batch.hpp"

#include <cstring>

#include "log.hpp"

namespace rpma::rdma
{

namespace
{

class guard
{
public:
    explicit guard(pthread_mutex_t &lock) : lock_(lock) { (void)pthread_mutex_lock(&lock_); }
    ~guard() { (void)pthread_mutex_unlock(&lock_); }
    guard(const guard &) = delete;
    guard &operator=(const guard &) = delete;

private:
    pthread_mutex_t &lock_;
};

} // namespace

batch::batch(post_targets &targets, const device_targets &device)
    : targets_(targets), device_(device), context_(), view_()
{
    context_.device = device_.qp->context->device;
    context_.ops.post_send = post_send;
    context_.ops.post_recv = post_recv;
    ibv_qp_ex &base = view_.extended.base;
    base.qp_base = *device_.qp;
    base.qp_base.context = &context_;
    base.wr_start = wr_start;
    base.wr_atomic_write = wr_atomic_write;
    base.wr_complete = wr_complete;
    set_wr_flush(view_.extended, wr_flush);
    view_.owner = this;
}

int submit(const batch_pointer &queued)
{
    batch *const created = queued.load();
    const int returned = created != nullptr ? created->submit() : 0;
    return returned == 0 ? 0 : post_failed("posting a batch", returned);
}

int batch::submit()
{
    const guard locked(lock_);
    return post_all();
}

void batch::route_to_batch()
{
    targets_.qp.store(qp());
    targets_.flush.store(flush());
    targets_.atomic_write.store(atomic_write());
}

void batch::route_to_device()
{
    targets_.qp.store(device_.qp);
    targets_.flush.store(device_.flush);
    targets_.atomic_write.store(device_.atomic_write);
}

batch::request &batch::add(enum kind of_kind)
{
    request &added = requests_[queued_++];
    added.kind = of_kind;
    added.wr.next = nullptr;
    added.wr.sg_list = &added.sge;
    return added;
}

int batch::added(bool keep)
{
    if (!keep || queued_ == capacity)
        return post_all();
    if (queued_ == 1)
        route_to_batch();
    return 0;
}

int batch::post_all()
{
    if (queued_ == 0)
        return 0;
    STATIC_PROBE(librpma, post_batch, 2, device_.qp->qp_num, queued_);
    const int error = has_native_ ? post_natively() : post_chain();
    queued_ = 0;
    has_native_ = false;
    route_to_device();
    return error;
}

int batch::post_chain()
{
    for (std::size_t i = 1; i < queued_; ++i)
        requests_[i - 1].wr.next = &requests_[i].wr;
    ibv_send_wr *refused = nullptr;
    const int returned = ibv_post_send(device_.qp, &requests_[0].wr, &refused);
    if (returned != 0 && queued_ > 1) {
        std::size_t posted = 0;
        while (posted < queued_ && &requests_[posted].wr != refused)
            ++posted;
        RPMA_LOG_ERROR(
                "batch: posted %zu of %zu work requests, dropped the others\n", posted < queued_ ? posted : 0, queued_);
    }
    return returned;
}

void batch::start_classic(ibv_qp_ex *qpx, const request &next)
{
    const auto &remote = next.wr.wr.rdma;
    switch (next.wr.opcode) {
    case IBV_WR_RDMA_READ:
        return ibv_wr_rdma_read(qpx, remote.rkey, remote.remote_addr);
    case IBV_WR_RDMA_WRITE:
        return ibv_wr_rdma_write(qpx, remote.rkey, remote.remote_addr);
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return ibv_wr_rdma_write_imm(qpx, remote.rkey, remote.remote_addr, next.wr.imm_data);
    case IBV_WR_SEND_WITH_IMM:
        return ibv_wr_send_imm(qpx, next.wr.imm_data);
    default:
        return ibv_wr_send(qpx);
    }
}

int batch::post_natively()
{
    ibv_qp_ex *const qpx = device_.flush != nullptr ? device_.flush : device_.atomic_write;
    ibv_wr_start(qpx);
    for (std::size_t i = 0; i < queued_; ++i) {
        request &next = requests_[i];
        const auto &remote = next.wr.wr.rdma;
        qpx->wr_id = next.wr.wr_id;
        qpx->wr_flags = next.wr.send_flags;
        if (next.kind == kind::native_flush) {
            wr_flush_of(qpx)(qpx, remote.rkey, remote.remote_addr, next.flush_length, next.placement, next.level);
        } else if (next.kind == kind::native_atomic_write) {
            ibv_wr_atomic_write(qpx, remote.rkey, remote.remote_addr, next.data.data());
        } else {
            start_classic(qpx, next);
            if ((next.wr.send_flags & IBV_SEND_INLINE) != 0)
                ibv_wr_set_inline_data(qpx, next.data.data(), next.data.size());
            else
                ibv_wr_set_sge_list(qpx, static_cast<std::size_t>(next.wr.num_sge), next.wr.sg_list);
        }
    }
    const int returned = ibv_wr_complete(qpx);
    if (returned != 0 && queued_ > 1)
        RPMA_LOG_ERROR("batch: dropped all %zu work requests\n", queued_);
    return returned;
}

int batch::post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **)
{
    batch &self = of(qp);
    const guard locked(self.lock_);
    request &next = self.add(kind::classic);
    next.wr.opcode = wr->opcode;
    next.wr.wr_id = wr->wr_id;
    next.wr.num_sge = wr->num_sge;
    next.wr.send_flags = wr->send_flags & ~queue_flag;
    if (wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        next.wr.imm_data = wr->imm_data;
    if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
        next.wr.wr.rdma = wr->wr.rdma;
    if (wr->num_sge != 0)
        next.sge = *wr->sg_list;
    if ((wr->send_flags & IBV_SEND_INLINE) != 0) {
        std::memcpy(next.data.data(), reinterpret_cast<const char *>(wr->sg_list->addr), next.data.size());
        next.sge.addr = reinterpret_cast<std::uintptr_t>(next.data.data());
    }
    return self.added((wr->send_flags & queue_flag) != 0);
}

int batch::post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr)
{
    return ibv_post_recv(of(qp).device_.qp, wr, bad_wr);
}

// Holds the lock until wr_complete(), like the queue pair of a device.
void batch::wr_start(ibv_qp_ex *qpx)
{
    (void)pthread_mutex_lock(&of(qpx).lock_);
}

batch::request &batch::add_native(enum kind of_kind, std::uint32_t rkey, std::uint64_t remote_addr)
{
    const ibv_qp_ex &asked = view_.extended.base;
    request &next = add(of_kind);
    next.wr.wr_id = asked.wr_id;
    next.wr.send_flags = asked.wr_flags & ~queue_flag;
    next.wr.wr.rdma.rkey = rkey;
    next.wr.wr.rdma.remote_addr = remote_addr;
    has_native_ = true;
    return next;
}

void batch::wr_flush(ibv_qp_ex *qpx, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length,
        std::uint8_t placement, std::uint8_t level)
{
    request &next = of(qpx).add_native(kind::native_flush, rkey, remote_addr);
    next.flush_length = length;
    next.placement = placement;
    next.level = level;
}

void batch::wr_atomic_write(ibv_qp_ex *qpx, std::uint32_t rkey, std::uint64_t remote_addr, const void *src)
{
    request &next = of(qpx).add_native(kind::native_atomic_write, rkey, remote_addr);
    std::memcpy(next.data.data(), src, next.data.size());
}

int batch::wr_complete(ibv_qp_ex *qpx)
{
    batch &self = of(qpx);
    const int returned = self.added((qpx->wr_flags & queue_flag) != 0);
    (void)pthread_mutex_unlock(&self.lock_);
    return returned;
}

} // namespace rpma::rdma
