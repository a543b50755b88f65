// SPDX-License-Identifier: BSD-3-Clause
#include "loopback_transport.hpp"
#include "base/copy.hpp"
#include "verbs/mw.hpp"
#include "wire/rnr_timer.hpp"

#include <cerrno>
#include <cstring>
#include <new>

namespace softrdma
{

namespace
{

struct heap_block final : block {
    heap_block(std::byte *where, std::size_t bytes) noexcept : block(where, 0, bytes) {}
    ~heap_block() override { ::operator delete(at, std::align_val_t(page)); }
};

loopback &of(queue_pair &qp) noexcept
{
    return static_cast<loopback &>(qp.network());
}

ibv_wc_status result_of(std::uint8_t answer) noexcept
{
    return answer == syndrome::ack ? IBV_WC_SUCCESS : status_of(answer);
}

// Gathers the data of a request into one buffer. Returns false if part of it is not registered.
bool gather(const queue_pair &qp, const wqe &w, std::vector<std::byte> &to)
{
    gathered from;
    const iovec inlined = w.inline_data();
    if (!w.is_inline() && !from.collect(qp.qp_base.pd, w.sg_list(), 0, 0, w.length))
        return false;
    to.resize(w.length);
    std::byte *at = to.data();
    for (const iovec &segment : w.is_inline() ? std::span(&inlined, 1) : from.span()) {
        copy_out(at, static_cast<const std::byte *>(segment.iov_base), segment.iov_len);
        at += segment.iov_len;
    }
    return true;
}

} // namespace

std::shared_ptr<block> private_memory::allocate(std::size_t size)
{
    auto *at = static_cast<std::byte *>(::operator new(size, std::align_val_t(page), std::nothrow));
    if (at == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    memset(at, 0, size);
    return std::make_shared<heap_block>(at, size);
}

void loopback::connect(const std::shared_ptr<queue_pair> &a, const std::shared_ptr<queue_pair> &b)
{
    of(*a).peer_ = b;
    of(*b).peer_ = a;
}

outcome loopback::execute()
{
    send_queue &queue = qp_.sends();
    while (!queue.empty() && (qp_.end().attr.qp_state == IBV_QPS_RTS || busy())) {
        const wqe &w = queue.front();
        if (w.info().local()) {
            const auto result = window_table::instance().execute_request(qp_, w);
            if (!result)
                return qp_.end().try_again_later(tries_++ == 0), outcome::proceed;
            complete_first(*result);
            if (*result != IBV_WC_SUCCESS)
                return outcome::broken;
            continue;
        }
        const auto status = w.is_rejected() ? w.local_status : execute_request(w);
        if (!status) {
            const int allowed = qp_.end().attr.rnr_retry;
            if (++tries_ <= allowed || allowed == infinite_retry) {
                if (!cq_of(qp_.qp_base.send_cq).stalled.add(qp_.end().self))
                    qp_.end().try_again_later(tries_ == 1);
                return outcome::proceed;
            }
        }
        complete_first(status.value_or(IBV_WC_RNR_RETRY_EXC_ERR));
        if (status != IBV_WC_SUCCESS)
            return outcome::broken;
    }
    return outcome::proceed;
}

void loopback::complete_first(ibv_wc_status status)
{
    tries_ = 0;
    qp_.sends().pop_front(status);
}

bool loopback::fail_first(ibv_wc_status status)
{
    if (qp_.sends().empty() || qp_.sends().front().info().local())
        return false;
    complete_first(status);
    return true;
}

void loopback::flush_sends()
{
    while (!qp_.sends().empty())
        complete_first(IBV_WC_WR_FLUSH_ERR);
}

bool loopback::reset()
{
    qp_.sends().clear();
    qp_.receives().reset();
    tries_ = 0;
    return true;
}

std::optional<ibv_wc_status> loopback::execute_request(const wqe &w)
{
    const auto peer = peer_.lock();
    if (peer == nullptr || (peer->receives().shared().state.load() & 1) == 0) // see state_word()
        return IBV_WC_RETRY_EXC_ERR;
    std::vector<std::byte> data;
    const bool sends = !w.info().round_trip || w.op == native::wr_atomic_write;
    if (sends && !gather(qp_, w, data))
        return IBV_WC_LOC_PROT_ERR;
    const auto status = w.info().takes_receive ? deliver(of(*peer), w, data) : act_on(of(*peer), w, data);
    if (status == IBV_WC_SUCCESS)
        of(*peer).executed_.fetch_add(1);
    return status;
}

// Executes a request that consumes no receive.
ibv_wc_status loopback::act_on(loopback &peer, const wqe &w, std::span<const std::byte> data)
{
    const unsigned access = peer.qp_.receives().shared().access.load(std::memory_order_relaxed);
    const remote_range range{w.rkey, w.remote_addr, w.length};
    std::uint64_t original = 0;
    switch (static_cast<int>(w.op)) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return result_of(peer.memory_.write(access, range, 0, data));
    case native::wr_atomic_write:
        return result_of(peer.memory_.write_word(access, w.rkey, w.remote_addr, data.data()));
    case native::wr_flush:
        return result_of(peer.memory_.flush(access, w.rkey, w.remote_addr, w.args.flush));
    case IBV_WR_RDMA_READ: {
        if (const auto answer = peer.memory_.check_read(access, range); answer != syndrome::ack || w.length == 0)
            return result_of(answer);
        const auto pin = peer.memory_.find(w.rkey, IBV_ACCESS_REMOTE_READ, w.remote_addr, w.length);
        const bool good =
                pin && peer.memory_.scatter(qp_.qp_base.pd, w.sg_list(), 0, {pin->at(w.remote_addr), w.length});
        return good ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
    }
    default: {
        const bool adds = w.op == IBV_WR_ATOMIC_FETCH_AND_ADD;
        const auto answer = peer.memory_.operate(access, w.rkey, w.remote_addr, w.args.atomic, adds, original);
        if (answer != syndrome::ack)
            return status_of(answer);
        const bool good = peer.memory_.scatter(qp_.qp_base.pd, w.sg_list(), 0, std::as_bytes(std::span(&original, 1)));
        return good ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
    }
    }
}

std::optional<ibv_wc_status> loopback::deliver(loopback &peer, const wqe &w, std::span<const std::byte> data)
{
    const ibv_qp &to = peer.qp_.qp_base;
    const auto request = to.srq != nullptr ? srq_of(to.srq).take() : peer.qp_.receives().take();
    if (!request)
        return std::nullopt;
    ibv_wc wc{};
    wc.wr_id = request->wr_id;
    wc.opcode = w.info().message() ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
    wc.byte_len = w.length;
    wc.qp_num = to.qp_num;
    wc.src_qp = qp_.qp_base.qp_num;
    wc.wc_flags = w.info().immediate ? IBV_WC_WITH_IMM : w.info().invalidates ? IBV_WC_WITH_INV : 0;
    wc.imm_data = w.info().invalidates ? w.rkey : w.imm_data; // or the key that was invalidated
    ibv_wc_status status = IBV_WC_SUCCESS;
    if (w.info().message()) {
        const std::span<const ibv_sge> sges(request->sges.data(), static_cast<std::size_t>(request->sge_count));
        std::uint64_t capacity = 0;
        for (const ibv_sge &sge : sges)
            capacity += sge.length;
        if (capacity < w.length)
            wc.status = IBV_WC_LOC_LEN_ERR, status = IBV_WC_REM_INV_REQ_ERR;
        else if (!peer.memory_.scatter(to.srq != nullptr ? to.srq->pd : to.pd, sges, 0, data))
            wc.status = IBV_WC_LOC_PROT_ERR, status = IBV_WC_REM_OP_ERR;
        else if (w.info().invalidates && !window_table::instance().invalidate_for_peer(peer.qp_, w.rkey))
            wc.status = IBV_WC_REM_INV_REQ_ERR, status = IBV_WC_REM_ACCESS_ERR;
    } else {
        status = act_on(peer, w, data);
        wc.status = status == IBV_WC_SUCCESS ? status : IBV_WC_WR_FLUSH_ERR;
    }
    cq_of(to.recv_cq).push(wc, (w.flags & IBV_SEND_SOLICITED) != 0);
    if (status != IBV_WC_SUCCESS) {
        const lock_guard lock(cq_of(to.recv_cq).lock());
        peer.qp_.receives().report_violation();
    }
    return status;
}

} // namespace softrdma
