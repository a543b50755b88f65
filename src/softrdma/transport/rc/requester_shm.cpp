// SPDX-License-Identifier: BSD-3-Clause
#include "base/assert.hpp"
#include "transport/rc/requester.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace softrdma
{

bool requester::is_for_network(wqe &w) noexcept
{
    if (w.has_psn() || w.state == wqe_state::network_only)
        return true;
    if (next_ == 0)
        return w.is_rejected();
    if (w.is_rejected() || !ep_.local->is_unsupported(w))
        return false;
    ep_.local->on_network_fallback(w);
    w.enter(wqe_state::network_only);
    return true;
}

outcome requester::tried_in_memory(post_result result)
{
    SOFTRDMA_ASSERT(next_ == 0); // all earlier requests are complete
    awaits_memory_ = false;
    wqe &w = queue_.front();
    switch (result) {
    case post_result::done:
        if (tap *t = tap::current(); t != nullptr) [[unlikely]]
            show_executed(*t, w);
        complete_first(IBV_WC_SUCCESS);
        break;
    case post_result::pending:
        return stall(w);
    case post_result::unsupported:
        ep_.local->on_network_fallback(w);
        start_polling_network();
        w.enter(wqe_state::network_only);
        break;
    case post_result::lost:
        log::write(log::level::warn, "queue pair %u: peer process exited", ep_.qp->qp_num);
        complete_first(IBV_WC_RETRY_EXC_ERR);
        return outcome::broken;
    case post_result::failed:
        complete_first(IBV_WC_REM_OP_ERR);
        return outcome::broken;
    }
    return pump();
}

void requester::show_executed(tap &t, const wqe &w)
{
    gathered data;
    const iovec inlined = w.inline_data();
    std::span<const iovec> payload{&inlined, 1};
    if (!w.is_inline()) {
        data.collect(ep_.qp->pd, w.sg_list(), 0, 0, w.length);
        payload = data.span();
    }
    packet request = w.info().round_trip ? round_trip_header(w)
                                         : packet{.op = segment_opcode(w, w.length),
                                                   .solicited = (w.flags & IBV_SEND_SOLICITED) != 0,
                                                   .remote_addr = w.remote_addr,
                                                   .rkey = w.rkey,
                                                   .dma_length = w.length,
                                                   .imm_data = w.imm_data};
    request.dest_qpn = ep_.attr.dest_qp_num;
    packet response{.op = opcode::acknowledge, .dest_qpn = ep_.qp->qp_num, .syndrome = syndrome::ack};
    if (w.info().atomic()) {
        response.op = opcode::atomic_acknowledge;
        memcpy(&response.swap_add, payload.front().iov_base, std::min<std::size_t>(payload.front().iov_len, word_size));
    } else if (w.info().round_trip) {
        response.op = opcode::read_response_only;
    }
    const bool sends = !w.info().round_trip || w.op == native::wr_atomic_write;
    const std::span<const iovec> nothing;
    t.executed(*ep_.path, request, sends ? payload : nothing, response, w.is_read() ? payload : nothing);
}

} // namespace softrdma
