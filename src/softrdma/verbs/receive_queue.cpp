// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/receive_queue.hpp"
#include "base/assert.hpp"
#include "base/copy.hpp"
#include "base/guard.hpp"
#include "verbs/qp.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

namespace softrdma
{

receive_queue::receive_queue(ibv_qp &qp, const ring_start &start)
    : qp_(qp), slots_(start), posted_(start.position), consumed_(start.position)
{
}

receive_queue::~receive_queue()
{
    for (const auto &watch : {scattering_watch_, operation_watch_}) {
        if (watch)
            reader_list::instance().remove(*watch);
    }
}

int receive_queue::create(const ibv_qp_cap &cap)
{
    srq_ = qp_.srq != nullptr ? &srq_of(qp_.srq) : nullptr;
    const std::uint32_t capacity = srq_ != nullptr ? max_lent : std::bit_ceil(std::max(cap.max_recv_wr, 1u));
    max_sge_ = std::max(srq_ != nullptr ? srq_->max_sge() : cap.max_recv_sge, 1u);
    wqes_.resize(capacity);
    sges_.resize(std::size_t{capacity} * max_sge_);
    if (!slots_.create(context_of(qp_.context).memory, capacity, max_sge_))
        return ENOMEM;
    qp_block &words = shared();
    words.domain = domain_of(qp_.pd);
    words.lent = srq_ != nullptr ? 1 : 0;
    domain_ = domain_of(srq_ != nullptr ? srq_->pd : qp_.pd);
    words.own_domain = object_of(&qp_).own_domain;
    words.cq_offset = cq_of(qp_.recv_cq).memory().offset;
    scattering_watch_ = reader_list::instance().add(reader::own(scattering_));
    operation_watch_ = reader_list::instance().add(
            reader::own(std::shared_ptr<std::atomic<std::uint32_t>>(slots_.memory(), &words.epoch)));
    return 0;
}

// Returns whether the slot already describes this receive, because programs repost few buffers. Loads length and key
// separately: their common word would have to wait for both stores to leave the store buffer.
bool receive_queue::matches_slot(const ibv_recv_wr &wr, const rq_wqe &cached) const noexcept
{
    if (wr.num_sge != 1 || !has_cached_address(cached))
        return false;
    const ibv_sge &requested = *wr.sg_list;
    return cached.segment.length == requested.length && cached.segment.addr == requested.addr &&
           cached.segment.lkey == requested.lkey;
}

void receive_queue::describe(const ibv_recv_wr &wr, std::uint64_t position)
{
    const std::span list(wr.sg_list, static_cast<std::size_t>(wr.num_sge));
    std::copy(list.begin(), list.end(), sges_of(position));
    std::uint64_t capacity = 0;
    bool owner_only = false;
    std::byte *address = nullptr;
    const std::uint64_t removals = regions_.removals();
    const read_section section(srq_ != nullptr ? srq_->describing() : shared().epoch);
    for (const ibv_sge &sge : list) {
        capacity += sge.length;
        if (sge.length == 0)
            continue;
        address = regions_.lookup_plain(sge, domain_);
        owner_only = owner_only || address == nullptr;
    }
    rq_wqe &k = wqe_of(position);
    k.sge_count = static_cast<std::uint16_t>(list.size());
    k.capacity = static_cast<std::uint32_t>(std::min<std::uint64_t>(capacity, limits::max_message));
    slots_.describe(position, list, k.capacity, owner_only);
    k.removals = unknown;
    if (list.size() == 1 && address != nullptr) {
        k.segment = *wr.sg_list;
        k.address = address;
        k.removals = removals;
    }
}

int receive_queue::publish(const ibv_recv_wr &wr, rq_wqe &k, std::uint64_t position) noexcept
{
    SOFTRDMA_ASSERT(position - consumed_.load(std::memory_order_relaxed) < slots_.capacity());
    k.wr_id = wr.wr_id;
    posted_.store(position + 1, std::memory_order_release);
    slots_.publish(position);
    return 0;
}

[[gnu::noinline]] int receive_queue::describe_and_publish(
        const ibv_recv_wr &wr, const ibv_qp_cap &cap, std::uint64_t position)
{
    if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > cap.max_recv_sge)
        return EINVAL;
    describe(wr, position);
    return publish(wr, wqe_of(position), position);
}

// Flattened like drain(): no other code runs between a message and its response.
[[gnu::flatten]] int receive_queue::post(const ibv_recv_wr &wr, const ibv_qp_cap &cap)
{
    SOFTRDMA_ASSERT(srq_ == nullptr); // its own receives are lent
    const std::uint64_t position = posted_.load(std::memory_order_relaxed);
    if (position - consumed_.load(std::memory_order_acquire) >= cap.max_recv_wr)
        return ENOMEM;
    rq_wqe &k = wqe_of(position);
    return matches_slot(wr, k) ? publish(wr, k, position) : describe_and_publish(wr, cap, position);
}

void receive_queue::on_region_changed(std::uint32_t key) noexcept
{
    const lock_guard lock(cq_of(qp_.recv_cq).lock());
    for (std::uint64_t at = consumed_.load(); at != posted_.load(); ++at) {
        const std::span sges(sges_of(at), wqe_of(at).sge_count);
        if (std::ranges::find(sges, key, &ibv_sge::lkey) != sges.end())
            slots_.leave_to_owner(at);
    }
}

bool receive_queue::fetch(std::uint64_t position, const receive_slots::message &m)
{
    const read_section section(*scattering_);
    const std::byte *data = slots_.data(position, m);
    if (data == nullptr)
        return false;
    const bool placed = scatter(data, position, m.length);
    slots_.release(m);
    return placed;
}

// Checks and places a message. It must fit into its receive, a WRITE into max_message.
ibv_wc_status receive_queue::admit(std::uint64_t position, const receive_slots::message &m)
{
    const bool is_write = m.has(slot_write);
    if (m.length > (is_write ? limits::max_message : wqe_of(position).capacity)) [[unlikely]]
        return IBV_WC_LOC_LEN_ERR;
    const bool placed = !m.is_outside_buffers() || (!is_write && fetch(position, m));
    return placed ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

bool receive_queue::scatter(const std::byte *at, std::uint64_t position, std::uint32_t length) const
{
    const rq_wqe &k = wqe_of(position);
    if (!has_cached_address(k) || length > k.segment.length) [[unlikely]]
        return scatter_sges(at, {sges_of(position), k.sge_count}, length);
    copy_in(k.address, at, length);
    return true;
}

[[gnu::noinline]] bool receive_queue::scatter_sges(
        const std::byte *at, std::span<const ibv_sge> sges, std::uint32_t length) const
{
    for (const ibv_sge &sge : sges) {
        const std::uint32_t part = std::min(length, sge.length);
        if (part > 0 && !place(sge, at, part))
            return false;
        at += part;
        length -= part;
    }
    return length == 0;
}

bool receive_queue::place(const ibv_sge &sge, const std::byte *at, std::uint32_t length) const
{
    std::byte *to = regions_.lookup(sge.lkey, domain_, IBV_ACCESS_LOCAL_WRITE, sge.addr, length);
    return to != nullptr && guarded([=] { copy_in(to, at, length); });
}

[[gnu::cold, gnu::noinline]] void receive_queue::report_violation() noexcept
{
    context_of(qp_.context).engine.defer(std::move(report_call_), std::chrono::microseconds(0));
}

bool receive_queue::take_delivered(ibv_wc &wc)
{
    const std::uint64_t position = consumed_.load(std::memory_order_relaxed);
    if (!is_delivered(position) || held_.load(std::memory_order_seq_cst))
        return false;
    slots_.prefetch(posted_.load(std::memory_order_relaxed)); // slot of the next receive that is posted
    const receive_slots::message message = slots_.read(position);
    wc = {};
    wc.wr_id = wqe_of(position).wr_id;
    wc.byte_len = message.length;
    wc.opcode = message.has(slot_write) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    wc.qp_num = qp_.qp_num;
    wc.src_qp = peer_qpn_;
    if (message.has(slot_immediate)) {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.imm_data = message.imm_data;
    }
    wc.status = admit(position, message);
    if (wc.status != IBV_WC_SUCCESS) [[unlikely]] { // a valid device never writes it: no more of its data is used
        wc.byte_len = 0;
        report_violation();
    }
    consume(position);
    if (srq_ != nullptr)
        srq_->on_consumed();
    if (network_expected_ != 0) [[unlikely]]
        on_memory_messages(1);
    return true;
}

// The program may have been woken by a delivered message and found no completion.
void receive_queue::release_delivered()
{
    if (held_.exchange(false, std::memory_order_seq_cst) && waiting() > 0)
        cq_of(qp_.recv_cq).announce(*this);
}

std::uint32_t receive_queue::waiting() const noexcept
{
    const std::uint64_t first = consumed_.load(std::memory_order_relaxed);
    std::uint64_t next = first;
    while (is_delivered(next))
        ++next;
    return static_cast<std::uint32_t>(next - first);
}

[[gnu::flatten]] int receive_queue::drain(ibv_wc *wc, int entries)
{
    int count = 0;
    while (count < entries && take_delivered(wc[count]))
        ++count;
    return count;
}

std::optional<receive_request> receive_queue::take()
{
    unique_lock lock(cq_of(qp_.recv_cq).lock());
    if (srq_ != nullptr)
        on_network_message();
    for (;;) {
        const std::uint64_t next = position();
        const bool is_there = next != posted_.load(std::memory_order_acquire);
        if (is_there && !is_delivered(next)) {
            const receive_request request = request_at(next);
            consume(next);
            return request;
        }
        lock.unlock();
        if (is_there)
            cq_of(qp_.recv_cq).collect(*this);
        else if (srq_ == nullptr || !srq_->lend_to(*this))
            return std::nullopt;
        lock.lock();
    }
}

receive_request receive_queue::request_at(std::uint64_t position) const noexcept
{
    receive_request request;
    request.wr_id = wqe_of(position).wr_id;
    request.sge_count = wqe_of(position).sge_count;
    std::copy_n(sges_of(position), request.sge_count, request.sges.begin());
    return request;
}

// Messages that exceed the ring come over the network, whose polls are slow, so they are limited to the next messages.
void receive_queue::on_network_message() noexcept
{
    constexpr std::uint32_t while_expected = 1024;
    if (std::exchange(network_expected_, while_expected) == 0)
        cq_of(qp_.recv_cq).network_users.fetch_add(1);
}

void receive_queue::on_memory_messages(std::uint32_t messages) noexcept
{
    SOFTRDMA_ASSERT(network_expected_ > 0);
    network_expected_ -= std::min(messages, network_expected_);
    if (network_expected_ == 0)
        cq_of(qp_.recv_cq).network_users.fetch_sub(1);
}

void receive_queue::borrow() noexcept
{
    if (srq_ != nullptr)
        srq_->begin_lending(*this);
}

void receive_queue::return_lent(lent which) noexcept
{
    if (srq_ != nullptr)
        srq_->end_lending(*this, which);
}

void receive_queue::lend(const receive_request &request)
{
    const std::uint64_t position = posted_.load(std::memory_order_relaxed);
    rq_wqe &k = wqe_of(position);
    ibv_recv_wr wr{};
    wr.wr_id = request.wr_id;
    wr.sg_list = const_cast<ibv_sge *>(request.sges.data());
    wr.num_sge = request.sge_count;
    if (!matches_slot(wr, k))
        describe(wr, position);
    SOFTRDMA_ASSERT(srq_ != nullptr);
    k.token = slots_.lend(position);
    publish(wr, k, position);
}

std::optional<receive_request> receive_queue::reclaim(lent which) noexcept
{
    if (count() == 0)
        return std::nullopt;
    completion_queue &cq = cq_of(qp_.recv_cq);
    unique_lock lock(cq.lock());
    if (count() == 0) // consumed in the meantime
        return std::nullopt;
    SOFTRDMA_ASSERT(srq_ != nullptr);
    const std::uint64_t position = posted_.load(std::memory_order_relaxed) - 1;
    if (!slots_.reclaim(position, wqe_of(position).token) && which != lent::all) {
        lock.unlock();
        cq.announce(*this); // its sender may have been stopped before it announced the message
        return std::nullopt;
    }
    posted_.store(position, std::memory_order_release);
    return request_at(position);
}

void receive_queue::flush()
{
    if (srq_ != nullptr) {
        cq_of(qp_.recv_cq).collect(*this);
        return return_lent(lent::all);
    }
    while (const auto request = take())
        complete_flushed(*request);
}

void receive_queue::reset()
{
    return_lent(lent::all);
    const lock_guard lock(cq_of(qp_.recv_cq).lock());
    consumed_.store(posted_.load(std::memory_order_relaxed), std::memory_order_release);
    if (network_expected_ != 0)
        on_memory_messages(network_expected_);
    for (rq_wqe &k : wqes_)
        k.removals = unknown; // the next peer must not depend on slot contents that the last peer could write
}

} // namespace softrdma
