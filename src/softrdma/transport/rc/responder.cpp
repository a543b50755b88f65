// SPDX-License-Identifier: BSD-3-Clause
#include "transport/rc/responder.hpp"

#include "verbs/mw.hpp"
#include "verbs/qp_object.hpp"

namespace softrdma
{

bool responder::take_receive(const std::weak_ptr<queue_pair> &self, std::uint32_t psn)
{
    receiver_not_ready_ = false;
    do {
        current_ = receives_.take();
    } while (!current_ && ep_.qp->srq != nullptr && !srq_of(ep_.qp->srq).notify_when_posted(self));
    if (current_)
        return true;
    receiver_not_ready_ = true;
    replies_.push_back(
            {.psn = psn, .syndrome = static_cast<std::uint8_t>(syndrome::rnr | (ep_.attr.min_rnr_timer & 0x1f))});
    return false;
}

responder::admission responder::admit(const packet &p, const std::weak_ptr<queue_pair> &self)
{
    if (p.replay) {
        access_ = ep_.attr.qp_access_flags;
        return round_trips_queued_ < limits::max_reads ? admission::execute : admission::ignore;
    }
    if (rejects_) // the rejection waits for READ responses
        return admission::ignore;
    const bool opens = is_first(p.op) || is_round_trip(p.op);
    // After a rejection the message starts again, or its rejected last segment arrives again.
    if (receiver_not_ready_ && (p.psn != expected_psn_ || (!opens && !in_message_)))
        return admission::ignore;
    if (p.psn != expected_psn_ || (opens == in_message_ && !receiver_not_ready_))
        return admission::violation;
    if (!opens && message_is_write_ != is_write(p.op))
        return admission::violation;
    receiver_not_ready_ = false;
    if ((is_first(p.op) && is_send(p.op)) || (is_write(p.op) && has_imm(p.op))) {
        if (!take_receive(self, p.psn))
            return admission::ignore;
    }
    if (is_first(p.op)) {
        SOFTRDMA_ASSERT(!in_message_); // one message at a time
        in_message_ = true;
        message_is_write_ = is_write(p.op);
        placed_ = 0;
    }
    access_ = ep_.attr.qp_access_flags;
    return admission::execute;
}

std::uint8_t responder::execute(const packet &p)
{
    if (is_write(p.op))
        return place_write(p);
    switch (p.op) {
    case opcode::read_request:
        return memory_.check_read(access_, {p.rkey, p.remote_addr, p.dma_length});
    case opcode::compare_swap:
    case opcode::fetch_add:
        return memory_.operate(access_, p.rkey, p.remote_addr,
                {.compare_add = p.op == opcode::fetch_add ? p.swap_add : p.compare, .swap = p.swap_add},
                p.op == opcode::fetch_add, original_);
    case opcode::atomic_write:
        if (p.dma_length != word_size || p.payload.size() != word_size)
            return syndrome::invalid_request;
        return memory_.write_word(access_, p.rkey, p.remote_addr, p.payload.data());
    case opcode::flush:
        return memory_.flush(
                access_, p.rkey, p.remote_addr, {.length = p.dma_length, .placement = p.placement, .level = p.level});
    default:
        return syndrome::ack;
    }
}

std::uint8_t responder::place_write(const packet &p)
{
    if (is_first(p.op)) {
        write_addr_ = p.remote_addr;
        write_rkey_ = p.rkey;
        write_length_ = p.dma_length;
    }
    SOFTRDMA_ASSERT(placed_ <= write_length_);
    const auto bytes = static_cast<std::uint32_t>(p.payload.size());
    const std::uint32_t left = write_length_ - placed_;
    if (write_length_ > limits::max_message || bytes > left || (is_last(p.op) && bytes != left))
        return syndrome::invalid_request;
    const std::uint8_t code = memory_.write(access_, {write_rkey_, write_addr_, write_length_}, placed_, p.payload);
    placed_ += code == syndrome::ack ? bytes : 0;
    return code;
}

std::uint8_t responder::place_message(const packet &p)
{
    SOFTRDMA_ASSERT(current_); // admit() has taken a receive
    const auto sges = receive_elements();
    if (placed_ + p.payload.size() > length_of(sges) || placed_ + p.payload.size() > limits::max_message) {
        complete_receive(p, IBV_WC_LOC_LEN_ERR);
        return syndrome::invalid_request;
    }
    if (!memory_.scatter(receive_domain(), sges, placed_, p.payload)) {
        complete_receive(p, IBV_WC_LOC_PROT_ERR);
        return syndrome::remote_operational;
    }
    placed_ += static_cast<std::uint32_t>(p.payload.size());
    if (has_ieth(p.op) && !window_table::instance().invalidate_for_peer(object_of(ep_.qp), p.rkey)) {
        complete_receive(p, IBV_WC_REM_INV_REQ_ERR);
        return syndrome::remote_access;
    }
    return syndrome::ack;
}

outcome responder::finish(const packet &p, std::uint8_t code)
{
    if (code == syndrome::ack && is_send(p.op))
        code = place_message(p);
    if (is_last(p.op) || (is_round_trip(p.op) && !p.replay)) {
        ++executed_;
        if (pmem::power_cut::armed()) [[unlikely]]
            pmem::power_cut::operation_done();
    }
    if (code == syndrome::ack && is_round_trip(p.op) && ++round_trips_queued_ > limits::max_reads)
        code = syndrome::invalid_request;
    if (code != syndrome::ack) // the region of a repeated READ may be gone since its response arrived
        return p.replay ? outcome::proceed : reject(p, code);
    if (is_round_trip(p.op)) {
        expected_psn_ = (expected_psn_ + (p.replay ? 0 : 1)) & psn_mask;
        respond_round_trip(p);
    } else if (is_last(p.op)) {
        expected_psn_ = (expected_psn_ + 1) & psn_mask;
        in_message_ = false;
        owes_acknowledgement_ = p.no_ack_req;
        if (!p.no_ack_req)
            acknowledge(p.psn);
        if (current_)
            complete_receive(p, IBV_WC_SUCCESS);
    }
    return outcome::proceed;
}

void responder::complete_receive(const packet &p, ibv_wc_status status)
{
    SOFTRDMA_ASSERT(current_);
    completion c{};
    c.wc.wr_id = current_->wr_id;
    c.wc.status = status;
    c.wc.opcode = is_write(p.op) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    c.wc.byte_len = placed_;
    c.wc.qp_num = ep_.qp->qp_num;
    c.wc.src_qp = ep_.attr.dest_qp_num;
    if (has_imm(p.op)) {
        c.wc.wc_flags = IBV_WC_WITH_IMM;
        c.wc.imm_data = p.imm_data;
    } else if (has_ieth(p.op)) {
        c.wc.wc_flags = IBV_WC_WITH_INV;
        c.wc.invalidated_rkey = p.rkey;
    }
    c.solicited = p.solicited;
    completions_.push_back(c);
    receive_is_completed();
}

void responder::receive_is_completed() noexcept
{
    if (ep_.qp->srq != nullptr)
        srq_of(ep_.qp->srq).on_consumed();
    current_.reset();
}

void responder::flush()
{
    if (current_) {
        receives_.complete_flushed(*current_);
        receive_is_completed();
    }
    receives_.flush();
}

// Returns the receive of a partial message to its shared receive queue. Own receives are flushed or reset later.
void responder::drop_message()
{
    if (!current_ || ep_.qp->srq == nullptr)
        return;
    srq_of(ep_.qp->srq).put_back(*current_);
    current_.reset();
    in_message_ = false;
}

void responder::reset()
{
    receives_.reset();
    drop_message();
    current_.reset();
    replies_.clear();
    completions_.clear();
    receives_.release_delivered();
    in_message_ = false;
    receiver_not_ready_ = announces_ = rejects_ = owes_acknowledgement_ = false;
    round_trips_queued_ = 0;
}

} // namespace softrdma
