// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sys/epoll.h>
#include <rdma/rdma_cma.h>

#include "failure.hpp"
#include "owner.hpp"
#include "sides.hpp"

// Baseline on libibverbs and librdmacm with the same work requests, queue sizes, flushes and atomic writes as librpma.
// The difference of the results is the cost of librpma.
namespace bench::verbs
{

// rdma-core 45 appended wr_flush to struct ibv_qp_ex. For queue pairs with flush operations only.
struct qp_ex_with_flush {
    ibv_qp_ex base;
    void (*wr_flush)(ibv_qp_ex *qpx, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t len, std::uint8_t type,
            std::uint8_t level);
};

[[noreturn, gnu::cold]] void fail(const char *call, int error);
inline void check(int returned, const char *call)
{
    if (returned != 0) [[unlikely]]
        fail(call, returned > 0 ? returned : errno);
}

class device
{
public:
    device(const std::string &host, end which);
    ibv_pd *pd() const { return pd_.get(); }
    // Operations that the device executes natively, under librpma's settings.
    bool flushes() const { return flushes_; }
    bool writes_atomically() const { return writes_atomically_; }

private:
    void query(ibv_context *context);

    bool flushes_ = false, writes_atomically_ = false;
    owner<ibv_pd, ibv_dealloc_pd> pd_;
};

class region
{
public:
    region(const device &on, void *data, std::size_t size, region_use use);
    ibv_mr *get() const { return mr_.get(); }
    region_descriptor descriptor() const;

private:
    owner<ibv_mr, ibv_dereg_mr> mr_;
};

struct endpoint_parts {
    owner<rdma_event_channel, rdma_destroy_event_channel> events;
    owner<rdma_cm_id, rdma_destroy_id> id;
    owner<ibv_comp_channel, ibv_destroy_comp_channel> channel;
    owner<ibv_cq, ibv_destroy_cq> cq;
    bool has_qp = false;

    endpoint_parts() = default;
    endpoint_parts(endpoint_parts &&) = default;
    endpoint_parts &operator=(endpoint_parts &&) = delete;
    ~endpoint_parts();

    void create_queues(const device &on, const queue_sizes &sizes);
};

class connection
{
public:
    static std::unique_ptr<connection> connect(const device &on, const address &to, const queue_sizes &sizes,
            const region *data, const region *messages, const greeting &handshake);

    void read(std::size_t local, std::size_t remote, std::size_t len, std::uint64_t context)
    {
        ibv_sge sge = data_sge(local, len);
        post_rdma(IBV_WR_RDMA_READ, sge, remote_.address + remote, IBV_SEND_SIGNALED, context);
    }
    void write(std::size_t local, std::size_t remote, std::size_t len, signal when, std::uint64_t context)
    {
        ibv_sge sge = data_sge(local, len);
        post_rdma(IBV_WR_RDMA_WRITE, sge, remote_.address + remote, flags(when), context);
    }
    void write_with_imm(
            std::size_t local, std::size_t remote, std::size_t len, std::uint32_t imm, std::uint64_t context)
    {
        ibv_sge sge = data_sge(local, len);
        post_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, sge, remote_.address + remote, IBV_SEND_SIGNALED, context, imm);
    }
    void atomic_write(std::size_t remote, const char (&value)[8], signal when, std::uint64_t context)
    {
        if (native_atomic_write_ != nullptr) {
            start_native(native_atomic_write_, flags(when) | (native_flush_ == nullptr ? unsigned{IBV_SEND_FENCE} : 0U),
                    context);
            ibv_wr_atomic_write(native_atomic_write_, remote_.key, remote_.address + remote, value);
            check(ibv_wr_complete(native_atomic_write_), "ibv_wr_complete");
            return;
        }
        ibv_sge sge{reinterpret_cast<std::uintptr_t>(value), sizeof value, 0};
        post_rdma(IBV_WR_RDMA_WRITE, sge, remote_.address + remote, flags(when) | IBV_SEND_INLINE | IBV_SEND_FENCE,
                context);
    }
    // Without native flush, reads after the write: 8 bytes from the start of the range.
    void flush(std::size_t remote, std::size_t len, bool persistent, signal when, std::uint64_t context)
    {
        if (native_flush_ != nullptr) {
            start_native(native_flush_, flags(when), context);
            reinterpret_cast<qp_ex_with_flush *>(native_flush_)
                    ->wr_flush(native_flush_, remote_.key, remote_.address + remote, len, persistent ? 2 : 1, 0);
            check(ibv_wr_complete(native_flush_), "ibv_wr_complete");
            return;
        }
        ibv_sge sge{reinterpret_cast<std::uintptr_t>(&flush_target_), sizeof flush_target_, flush_mr_->lkey};
        const std::size_t last = remote_.size - sizeof flush_target_;
        post_rdma(IBV_WR_RDMA_READ, sge, remote_.address + (remote < last ? remote : last), flags(when), context);
    }
    void send(std::size_t offset, std::size_t len, std::uint64_t context)
    {
        ibv_sge sge = sge_of(messages_, offset, len);
        post_message(IBV_WR_SEND, &sge, 0, context);
    }
    void send_imm(std::uint32_t imm, std::uint64_t context)
    {
        post_message(IBV_WR_SEND_WITH_IMM, nullptr, imm, context);
    }
    void receive(std::size_t offset, std::size_t len, std::uint64_t context)
    {
        ibv_sge sge = sge_of(messages_, offset, len);
        post_receive(qp_, sge, context);
    }

    int poll(ibv_wc *wc, int max_count)
    {
        const int got = ibv_poll_cq(parts_.cq.get(), max_count, wc);
        if (got < 0) [[unlikely]]
            fail("ibv_poll_cq", -got);
        return got;
    }
    int completion_fd() const { return parts_.channel->fd; }
    void acknowledge_event();

    int event_fd() const { return parts_.events->fd; }
    static constexpr std::uint32_t epoll_events = EPOLLIN;
    bool has_ended();
    void disconnect() { (void)rdma_disconnect(parts_.id.get()); }

private:
    friend class listener;
    connection(const device &on, endpoint_parts &&parts, const region *data, const region *messages);

    static void post_receive(ibv_qp *qp, ibv_sge &sge, std::uint64_t context)
    {
        ibv_recv_wr wr{};
        wr.wr_id = context;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        ibv_recv_wr *bad = nullptr;
        check(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
    }
    static void start_native(ibv_qp_ex *qpx, unsigned send_flags, std::uint64_t context)
    {
        ibv_wr_start(qpx);
        qpx->wr_id = context;
        qpx->wr_flags = send_flags;
    }
    void post_rdma(ibv_wr_opcode opcode, ibv_sge &sge, std::uint64_t remote, unsigned send_flags, std::uint64_t context,
            std::uint32_t imm = 0)
    {
        ibv_send_wr wr{};
        wr.opcode = opcode;
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = remote_.key;
        post(wr, &sge, send_flags, imm, context);
    }
    void post_message(ibv_wr_opcode opcode, ibv_sge *sge, std::uint32_t imm, std::uint64_t context)
    {
        ibv_send_wr wr{};
        wr.opcode = opcode;
        post(wr, sge, IBV_SEND_SIGNALED, imm, context);
    }
    void post(ibv_send_wr &wr, ibv_sge *sge, unsigned send_flags, std::uint32_t imm, std::uint64_t context)
    {
        wr.wr_id = context;
        wr.sg_list = sge;
        wr.num_sge = sge == nullptr ? 0 : 1;
        wr.send_flags = send_flags;
        wr.imm_data = htonl(imm);
        ibv_send_wr *bad = nullptr;
        check(ibv_post_send(qp_, &wr, &bad), "ibv_post_send");
    }
    static ibv_sge sge_of(const ibv_mr *mr, std::size_t offset, std::size_t len)
    {
        return {reinterpret_cast<std::uintptr_t>(mr->addr) + offset, static_cast<std::uint32_t>(len), mr->lkey};
    }
    ibv_sge data_sge(std::size_t offset, std::size_t len) const { return sge_of(data_, offset, len); }
    static unsigned flags(signal when) { return when == signal::always ? unsigned{IBV_SEND_SIGNALED} : 0U; }

    endpoint_parts parts_;
    ibv_qp *qp_;
    ibv_mr *data_;
    ibv_mr *messages_;
    ibv_qp_ex *native_flush_ = nullptr;
    ibv_qp_ex *native_atomic_write_ = nullptr;
    region_descriptor remote_{};
    alignas(64) std::uint64_t flush_target_ = 0;
    owner<ibv_mr, ibv_dereg_mr> flush_mr_;
};

class listener
{
public:
    listener(const device &on, const address &at);
    int fd() const { return events_->fd; }
    accepted<connection> accept(const acceptance<region> &how);

private:
    const device &device_;
    owner<rdma_event_channel, rdma_destroy_event_channel> events_;
    owner<rdma_cm_id, rdma_destroy_id> id_;
};

} // namespace bench::verbs
