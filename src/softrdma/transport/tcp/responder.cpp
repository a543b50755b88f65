// SPDX-License-Identifier: BSD-3-Clause
#include "transport/tcp/responder.hpp"
#include "base/copy.hpp"
#include "base/guard.hpp"
#include "pmem/policy.hpp"
#include "verbs/native.hpp"

#include <algorithm>

namespace softrdma
{

bool responder::take_receive(const std::weak_ptr<queue_pair> &self, std::uint32_t psn)
{
    receiver_not_ready_ = false;
    if (ep_.qp->srq != nullptr) {
        auto &srq = srq_of(ep_.qp->srq);
        do {
            current_ = srq.take();
        } while (!current_ && !srq.call_when_posted(self));
    } else {
        current_ = ring_.take();
    }
    if (current_)
        return true;
    receiver_not_ready_ = true;
    replies_.push_back(
            {.psn = psn, .syndrome = static_cast<std::uint8_t>(syndrome::rnr | (ep_.attr.min_rnr_timer & 0x1f))});
    return false;
}

responder::admission responder::admit(const packet &p, std::weak_ptr<queue_pair> self)
{
    const bool opens = is_first(p.op) || is_round_trip(p.op);
    if (receiver_not_ready_ && (p.psn != expected_psn_ || !opens))
        return admission::ignore;
    if (p.psn != expected_psn_ || opens == in_message_)
        return admission::violation;
    if (!opens && message_is_write_ != is_write(p.op))
        return admission::violation;
    receiver_not_ready_ = false;
    if ((is_first(p.op) && is_send(p.op)) || (is_write(p.op) && has_imm(p.op))) {
        if (!take_receive(self, p.psn)) {
            in_message_ = false;
            return admission::ignore;
        }
    }
    if (is_first(p.op)) {
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
        return check_read(p);
    case opcode::compare_swap:
    case opcode::fetch_add:
        return operate(p);
    case opcode::atomic_write:
        return place_word(p);
    case opcode::flush:
        return flush_range(p);
    default:
        return syndrome::ack;
    }
}

std::uint8_t responder::check_read(const packet &p)
{
    if (p.dma_length > limits::max_message)
        return syndrome::invalid_request;
    if ((access_ & IBV_ACCESS_REMOTE_READ) == 0)
        return syndrome::remote_access;
    if (p.dma_length > 0 &&
            !region_table::instance().pin(p.rkey, ep_.qp->pd, IBV_ACCESS_REMOTE_READ, p.remote_addr, p.dma_length))
        return syndrome::remote_access;
    return pmem::read_flushes() ? make_durable() : syndrome::ack;
}

std::uint8_t responder::place_word(const packet &p)
{
    if (p.dma_length != word_size || p.payload.size() != word_size || p.remote_addr % word_size != 0)
        return syndrome::invalid_request;
    if ((access_ & IBV_ACCESS_REMOTE_WRITE) == 0)
        return syndrome::remote_access;
    const auto pin =
            region_table::instance().pin(p.rkey, ep_.qp->pd, IBV_ACCESS_REMOTE_WRITE, p.remote_addr, word_size);
    if (!pin)
        return syndrome::remote_access;
    std::byte *to = pin->at(p.remote_addr);
    if (!is_word_aligned(to))
        return syndrome::invalid_request;
    pin->about_to_store(to, word_size);
    if (!guarded([&] { copy_in(to, p.payload.data(), word_size); }))
        return syndrome::remote_operational;
    note_store(pin, to, word_size);
    return syndrome::ack;
}

std::uint8_t responder::operate(const packet &p)
{
    if (p.remote_addr % word_size != 0)
        return syndrome::invalid_request;
    if ((access_ & IBV_ACCESS_REMOTE_ATOMIC) == 0)
        return syndrome::remote_access;
    const auto pin =
            region_table::instance().pin(p.rkey, ep_.qp->pd, IBV_ACCESS_REMOTE_ATOMIC, p.remote_addr, word_size);
    if (!pin)
        return syndrome::remote_access;
    std::byte *at = pin->at(p.remote_addr);
    if (!is_word_aligned(at))
        return syndrome::invalid_request;
    auto *word = reinterpret_cast<std::uint64_t *>(at);
    pin->about_to_store(at, word_size);
    const auto exchange = [&] {
        if (p.op == opcode::fetch_add) {
            original_ = __atomic_fetch_add(word, p.swap_add, __ATOMIC_SEQ_CST);
        } else {
            original_ = p.compare;
            __atomic_compare_exchange_n(word, &original_, p.swap_add, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        }
    };
    if (!guarded(exchange))
        return syndrome::remote_operational;
    note_store(pin, at, word_size);
    return syndrome::ack;
}

std::uint8_t responder::flush_range(const packet &p)
{
    const bool persistent = (p.placement & native::placement_persistent) != 0;
    const bool global = (p.placement & native::placement_global) != 0;
    if ((!persistent && !global) || p.level > native::level_region)
        return syndrome::invalid_request;
    const int access = rights_to_flush(
            global, persistent, context_of(ep_.qp->context).memory.knows_flush().load(std::memory_order_relaxed) != 0);
    if ((static_cast<int>(access_) & access) != access)
        return syndrome::remote_access;
    const bool whole = p.level == native::level_region;
    const auto pin = region_table::instance().pin(
            p.rkey, ep_.qp->pd, access, whole ? region_table::any_address : p.remote_addr, whole ? 0 : p.dma_length);
    if (!pin)
        return syndrome::remote_access;
    // Requests are executed in order and stores are coherent: what the FLUSH follows is visible already.
    if (!persistent)
        return syndrome::ack;
    const auto begin = reinterpret_cast<std::uintptr_t>(whole ? pin->addr : pin->at(p.remote_addr));
    return pin->sync(begin, whole ? pin->length : p.dma_length) == 0 ? syndrome::ack : syndrome::remote_operational;
}

std::uint8_t responder::place_write(const packet &p)
{
    if (is_first(p.op)) {
        write_addr_ = p.remote_addr;
        write_rkey_ = p.rkey;
        write_length_ = p.dma_length;
    }
    const auto bytes = static_cast<std::uint32_t>(p.payload.size());
    const std::uint32_t left = write_length_ - placed_;
    if (write_length_ > limits::max_message || bytes > left || (is_last(p.op) && bytes != left))
        return syndrome::invalid_request;
    if ((access_ & IBV_ACCESS_REMOTE_WRITE) == 0)
        return syndrome::remote_access;
    if (bytes == 0)
        return syndrome::ack;
    const auto pin =
            region_table::instance().pin(write_rkey_, ep_.qp->pd, IBV_ACCESS_REMOTE_WRITE, write_addr_, write_length_);
    if (!pin)
        return syndrome::remote_access;
    std::byte *to = pin->at(write_addr_ + placed_);
    pin->about_to_store(to, bytes);
    if (!guarded([&] { copy_in(to, p.payload.data(), bytes); }))
        return syndrome::remote_operational;
    note_store(pin, to, bytes);
    placed_ += bytes;
    return syndrome::ack;
}

void responder::note_store(const region_pin &pin, std::byte *begin, std::size_t bytes)
{
    if (!pin->stored(begin, bytes))
        return;
    const auto from = reinterpret_cast<std::uintptr_t>(begin);
    for (dirty_range &range : dirty_) {
        if (range.region == pin.region()) {
            range.begin = std::min(range.begin, from);
            range.end = std::max(range.end, from + bytes);
            return;
        }
    }
    constexpr std::size_t many = 64;
    if (dirty_.size() >= many)
        std::erase_if(dirty_, [](const dirty_range &r) { return !region_table::instance().pin(r.region); });
    dirty_.push_back({pin.region(), from, from + bytes});
}

std::uint8_t responder::make_durable()
{
    for (const dirty_range &range : dirty_) {
        // A region that is gone was made durable when it was deregistered.
        const auto pin = region_table::instance().pin(range.region);
        if (pin && pin->sync(range.begin, range.end - range.begin) != 0)
            return syndrome::remote_operational;
    }
    dirty_.clear();
    return syndrome::ack;
}

std::uint8_t responder::place_message(const packet &p)
{
    const auto sges = receive_elements();
    std::uint64_t room = 0;
    for (const ibv_sge &sge : sges)
        room += sge.length;
    if (placed_ + p.payload.size() > room || placed_ + p.payload.size() > limits::max_message) {
        complete_receive(p, IBV_WC_LOC_LEN_ERR);
        return syndrome::invalid_request;
    }
    gathered target;
    if (!target.collect(receive_domain(), sges, IBV_ACCESS_LOCAL_WRITE, placed_, p.payload.size())) {
        complete_receive(p, IBV_WC_LOC_PROT_ERR);
        return syndrome::remote_operational;
    }
    const std::byte *from = p.payload.data();
    for (std::size_t i = 0; i < target.count; ++i) {
        auto *to = static_cast<std::byte *>(target.pieces[i].iov_base);
        target.pins[i]->about_to_store(to, target.pieces[i].iov_len);
        if (!guarded([&] { copy_to_place(to, from, target.pieces[i].iov_len); })) {
            complete_receive(p, IBV_WC_LOC_PROT_ERR);
            return syndrome::remote_operational;
        }
        note_store(target.pins[i], to, target.pieces[i].iov_len);
        from += target.pieces[i].iov_len;
    }
    placed_ += static_cast<std::uint32_t>(p.payload.size());
    return syndrome::ack;
}

bool responder::find_place(const packet &begun, std::size_t bytes, gathered &place)
{
    return in_message_ && !message_is_write_ && begun.psn == expected_psn_ && current_ &&
           place.collect(receive_domain(), receive_elements(), IBV_ACCESS_LOCAL_WRITE, placed_, bytes);
}

outcome responder::finish(const packet &p, std::uint8_t answer)
{
    if (answer == syndrome::ack && is_send(p.op))
        answer = place_message(p);
    if (is_last(p.op) || is_round_trip(p.op)) {
        ++executed_;
        if (pmem::power_cut::armed()) [[unlikely]]
            pmem::power_cut::operation_done();
    }
    if (answer == syndrome::ack && is_round_trip(p.op) && ++round_trips_queued_ > limits::max_reads)
        answer = syndrome::invalid_request;
    if (answer != syndrome::ack)
        return refuse(p, answer);
    if (is_round_trip(p.op)) {
        expected_psn_ = (expected_psn_ + 1) & psn_mask;
        answer_round_trip(p);
    } else if (is_last(p.op)) {
        expected_psn_ = (expected_psn_ + 1) & psn_mask;
        in_message_ = false;
        if (!p.no_ack_req)
            acknowledge(p.psn);
        if (current_)
            complete_receive(p, IBV_WC_SUCCESS);
    }
    return outcome::proceed;
}

void responder::complete_receive(const packet &p, ibv_wc_status status)
{
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
    }
    c.solicited = p.solicited;
    completions_.push_back(c);
    current_.reset();
}

void responder::flush()
{
    if (current_)
        ring_.complete_flushed(*current_);
    current_.reset();
    ring_.flush();
}

void responder::reset()
{
    ring_.reset();
    current_.reset();
    replies_.clear();
    completions_.clear();
    ring_.hold_delivered(false);
    in_message_ = false;
    receiver_not_ready_ = announces_ = false;
    round_trips_queued_ = 0;
}

} // namespace softrdma
