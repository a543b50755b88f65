// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"
#include "base/copy.hpp"
#include "base/guard.hpp"
#include "fault/rules.hpp"
#include "verbs/address_handle.hpp"
#include "verbs/datagram_qp.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/tap.hpp"

#include <algorithm>
#include <cerrno>
#include <vector>

namespace softrdma
{

namespace
{

// A Q_Key with this bit in a work request selects the Q_Key of the sending queue pair.
constexpr std::uint32_t controlled_qkey = 0x80000000;

int check_datagram(const ibv_send_wr &wr, const ibv_qp_cap &cap) noexcept
{
    if (!is_opcode(wr.opcode) || !info_of(wr.opcode).message() || info_of(wr.opcode).invalidates ||
            wr.wr.ud.ah == nullptr)
        return EINVAL;
    return check_wr(wr, cap);
}

bool send_on(datagram_path &path, const datagram &d, const datagram_route &route, std::span<const iovec> payload)
{
    if (tap *const t = tap::current(); t != nullptr) [[unlikely]]
        t->sent(d, route, payload);
    return path.send(d, route, payload);
}

bool scatter(const gathered &target, std::span<const std::byte> header, std::span<const std::byte> payload)
{
    for (std::size_t i = 0; i < target.count; ++i) {
        const auto [at, length] = target.segments[i];
        auto *to = static_cast<std::byte *>(at);
        const auto of_header = header.first(std::min(length, header.size()));
        const auto of_payload = payload.first(length - of_header.size());
        target.pins[i]->about_to_store(to, length);
        const bool copied = guarded([=] {
            copy_in(to, of_header.data(), of_header.size());
            copy_in(to + of_header.size(), of_payload.data(), of_payload.size());
        });
        if (!copied)
            return false;
        target.pins[i]->stored(to, length);
        header = header.subspan(of_header.size());
        payload = payload.subspan(of_payload.size());
    }
    return true;
}

} // namespace

int datagram_qp::post_send(ibv_send_wr *wr, ibv_send_wr **bad)
{
    const auto batch_lock = wait_for_batch();
    const lock_guard lock(mutex_);
    int error = accepts_sends() ? 0 : EINVAL;
    for (; wr != nullptr; wr = wr->next) {
        if (error == 0)
            error = check_datagram(*wr, init_.cap);
        if (error == 0 && queue_.available() == 0)
            error = ENOMEM;
        if (error != 0) {
            *bad = wr;
            break;
        }
        wqe &w = *queue_.next_free();
        w.set(*wr);
        w.set_ud(wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
        queue_.push();
    }
    pump();
    return error;
}

int datagram_qp::submit_batch(std::uint32_t count)
{
    const lock_guard lock(mutex_);
    if (!accepts_sends())
        return EINVAL;
    if (count > queue_.available())
        return ENOMEM;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (queue_.next_free(i)->args.ud.ah == nullptr)
            return EINVAL;
    }
    for (; count > 0; --count)
        queue_.push();
    pump();
    return 0;
}

// A request that cannot be sent stops only the send queue, until the program restarts it.
void datagram_qp::pump()
{
    while (state() == IBV_QPS_RTS && !queue_.empty()) {
        const ibv_wc_status status = send(queue_.front());
        queue_.pop_front(status);
        if (status != IBV_WC_SUCCESS)
            set_state(IBV_QPS_SQE);
    }
    if (state() == IBV_QPS_SQE || state() == IBV_QPS_ERR)
        flush_sends();
    queue_.rewind();
}

// Finds a single contiguous payload, which needs no pin inside a section. Returns false for other requests.
bool datagram_qp::find_sge(const wqe &w, iovec &segment) const
{
    if (w.sge_count != 1 || w.length == 0)
        return false;
    const ibv_sge &sge = w.sg_list()[0];
    std::byte *at =
            region_table::instance().lookup(sge.lkey, domain_of(qp_base.pd), access_local_read, sge.addr, sge.length);
    segment = {at, sge.length};
    return at != nullptr;
}

ibv_wc_status datagram_qp::send(const wqe &w)
{
    const address_handle &to = ah_of(w.args.ud.ah);
    if (domain_of(to.pd) != domain_of(qp_base.pd))
        return IBV_WC_LOC_QP_OP_ERR;
    if (w.length > to.max_payload)
        return IBV_WC_LOC_LEN_ERR;
    const read_section section(*epoch_);
    gathered source;
    iovec segment = w.inline_data();
    const bool single_sge = w.is_inline() || find_sge(w, segment);
    if (!single_sge && !source.collect(qp_base.pd, w.sg_list(), 0, 0, w.length))
        return IBV_WC_LOC_PROT_ERR;
    const auto payload = single_sge ? std::span<const iovec>(&segment, 1) : source.span();
    const std::uint32_t qkey = w.args.ud.qkey;
    const datagram d{.solicited = (w.flags & IBV_SEND_SOLICITED) != 0,
            .immediate = w.info().immediate,
            .dest_qpn = w.args.ud.qpn,
            .source_qpn = qp_base.qp_num,
            .psn = next_psn_,
            .qkey = (qkey & controlled_qkey) != 0 ? attr_.qkey : qkey,
            .imm_data = w.imm_data};
    next_psn_ = (next_psn_ + 1) & 0xffffff;
    if (fault::active()) [[unlikely]] {
        if (const auto verdict = fault::on_request(w.op, qp_base.qp_num))
            return send_with_fault(*verdict, d, to.route, payload);
    }
    return send_on(*path_, d, to.route, payload) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

ibv_wc_status datagram_qp::send_with_fault(
        const fault::verdict &verdict, const datagram &d, const datagram_route &route, std::span<const iovec> payload)
{
    using fault::action;
    if (verdict.kind == action::status)
        return verdict.status;
    if (verdict.kind == action::drop)
        return IBV_WC_SUCCESS;
    if (verdict.kind != action::delay) {
        if (verdict.kind == action::duplicate)
            send_on(*path_, d, route, payload);
        return send_on(*path_, d, route, payload) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
    }
    std::vector<std::byte> copy(total_length(payload));
    gather_segments(copy.data(), payload);
    const auto send_later = [path = path_, d, route, copy = std::move(copy)] {
        const iovec whole{const_cast<std::byte *>(copy.data()), copy.size()};
        send_on(*path, d, route, {&whole, 1});
    };
    context_of(qp_base.context).engine.defer(send_later, verdict.delay);
    return IBV_WC_SUCCESS;
}

int datagram_qp::post_receive(ibv_recv_wr *wr, ibv_recv_wr **bad)
{
    const lock_guard lock(mutex_);
    int error = qp_base.srq != nullptr || state() == IBV_QPS_RESET ? EINVAL : 0;
    for (; wr != nullptr; wr = wr->next) {
        if (error == 0 && receives_.full())
            error = ENOMEM;
        if (error == 0)
            error = receive_request::from(*wr, init_.cap.max_recv_sge, receives_.next_free());
        if (error != 0) {
            *bad = wr;
            break;
        }
        receives_.push();
    }
    if (state() == IBV_QPS_ERR)
        flush_receives();
    return error;
}

const receive_request *datagram_qp::take_receive(receive_request &space)
{
    if (qp_base.srq == nullptr)
        return receives_.empty() ? nullptr : &receives_.pop();
    const auto taken = srq_of(qp_base.srq).take();
    if (!taken)
        return nullptr;
    space = *taken;
    return &space;
}

// Service level of a received IPv4 packet of RoCE, as of ConnectX: programs as UCX find the form of its header by it.
constexpr std::uint8_t v4_packet = 0x0a;

// Datagrams without a posted receive or with another Q_Key count as lost in the network.
void datagram_qp::arrived(const datagram &d, const network_header &header)
{
    if (tap *const t = tap::current(); t != nullptr) [[unlikely]]
        t->received(d, header);
    const lock_guard lock(mutex_);
    receive_request space;
    const receive_request *request = receives() && d.qkey == attr_.qkey ? take_receive(space) : nullptr;
    if (request == nullptr) {
        log::write(log::level::debug, "queue pair %u: datagram of queue pair %u dropped: no receive, or another Q_Key",
                qp_base.qp_num, d.source_qpn);
        ++dropped_;
        return;
    }
    ++received_.requests;
    received_.bytes += d.payload.size();
    ibv_wc wc{};
    wc.wr_id = request->wr_id;
    wc.status = place(*request, header, d.payload);
    wc.opcode = IBV_WC_RECV;
    wc.byte_len = static_cast<std::uint32_t>(header.size() + d.payload.size());
    wc.qp_num = qp_base.qp_num;
    wc.src_qp = d.source_qpn;
    wc.wc_flags = IBV_WC_GRH;
    wc.sl = header.front() == std::byte{0} ? v4_packet : 0; // otherwise a version
    if (d.immediate) {
        wc.wc_flags |= IBV_WC_WITH_IMM;
        wc.imm_data = d.imm_data;
    }
    cq_of(qp_base.recv_cq).push(wc, d.solicited);
    if (wc.status != IBV_WC_SUCCESS)
        fail();
}

// Fast path for a receive in one segment of plain memory. Returns false for other receives.
bool datagram_qp::place_plain(
        const ibv_sge &to, std::uint64_t domain, const network_header &header, std::span<const std::byte> payload)
{
    const read_section section(*epoch_);
    std::byte *at = region_table::instance().lookup_plain(to, domain);
    return at != nullptr && guarded([&] {
        copy_in(at, header.data(), header.size());
        copy_in(at + header.size(), payload.data(), payload.size());
    });
}

ibv_wc_status datagram_qp::place(
        const receive_request &to, const network_header &header, std::span<const std::byte> payload)
{
    const std::span sges(to.sges.data(), static_cast<std::size_t>(to.sge_count));
    if (header.size() + payload.size() > length_of(sges))
        return IBV_WC_LOC_LEN_ERR;
    const ibv_pd *pd = qp_base.srq != nullptr ? qp_base.srq->pd : qp_base.pd;
    if (sges.size() == 1 && place_plain(sges[0], domain_of(pd), header, payload))
        return IBV_WC_SUCCESS;
    gathered target;
    const bool is_placed = target.collect(pd, sges, IBV_ACCESS_LOCAL_WRITE, 0, header.size() + payload.size()) &&
                           scatter(target, header, payload);
    return is_placed ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

} // namespace softrdma
