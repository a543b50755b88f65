// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/read_section.hpp"
#include "transport/receive_slots.hpp"
#include "verbs/cq.hpp"
#include "verbs/mr.hpp"
#include "verbs/shared_receive_queue.hpp"

#include <span>

namespace softrdma
{

// Posted receives of a queue pair in order, published by `slots_`. Its lock guards posting, that of the completion
// queue consuming. If an SRQ lends its receives, its lock guards posting, and both locks guard reclaiming.
class receive_queue final : public inbound_source
{
public:
    receive_queue(ibv_qp &qp, const ring_start &start);
    ~receive_queue() override;

    int create(const ibv_qp_cap &cap);
    bool valid() const noexcept { return slots_.valid(); }
    qp_block &shared() const noexcept { return slots_.words(); }
    const block &memory() const noexcept { return *slots_.memory(); }

    int post(const ibv_recv_wr &wr, const ibv_qp_cap &cap);
    void borrow() noexcept; // the shared receive queue, if any, then lends receives
    void return_lent(lent which) noexcept;
    // For the shared receive queue; the caller must hold its lock.
    std::uint32_t count() const noexcept
    {
        return static_cast<std::uint32_t>(posted_.load() - consumed_.load(std::memory_order_acquire));
    }
    static constexpr std::uint32_t max_lent = 64;
    void lend(const receive_request &request);
    // Reclaims the receive that was lent last. Returns nothing if none is lent or `which` excludes it.
    std::optional<receive_request> reclaim(lent which) noexcept;
    void on_region_changed(std::uint32_t key) noexcept; // messages then need a new lookup
    std::uint64_t position() const noexcept { return consumed_.load(std::memory_order_relaxed); } // next to be consumed
    void set_peer(std::uint32_t qpn) noexcept { peer_qpn_ = qpn; }

    int drain(ibv_wc *wc, int entries) override;
    std::uint32_t waiting() const noexcept override;
    std::atomic<std::uint32_t> &watched() noexcept override { return shared().watched; }

    // drain() finds no messages between these calls, because earlier messages still lack completions.
    void hold_delivered() noexcept { held_.store(true, std::memory_order_seq_cst); }
    void release_delivered();
    // Takes the next receive for a message from the network, after completing earlier messages in memory.
    std::optional<receive_request> take();
    void flush(); // completes delivered messages, then flushes other receives
    void complete_flushed(const receive_request &request)
    {
        cq_of(qp_.recv_cq).push(flushed_receive(qp_.qp_num, request.wr_id), false);
    }
    void reset();
    // Fails the queue pair, later: its lock precedes that of the completion queue, which the caller must hold.
    void report_violation() noexcept;
    void prepare_report(reserve::prepared_call call) noexcept
    {
        const lock_guard lock(cq_of(qp_.recv_cq).lock());
        report_call_ = std::move(call);
    }

private:
    struct rq_wqe;
    bool has_cached_address(const rq_wqe &k) const noexcept { return k.removals == regions_.removals(); }
    bool matches_slot(const ibv_recv_wr &wr, const rq_wqe &cached) const noexcept;
    void describe(const ibv_recv_wr &wr, std::uint64_t position);
    int publish(const ibv_recv_wr &wr, rq_wqe &k, std::uint64_t position) noexcept;
    int describe_and_publish(const ibv_recv_wr &wr, const ibv_qp_cap &cap, std::uint64_t position);
    bool is_delivered(std::uint64_t position) const noexcept
    {
        return slots_.has_message(position) && position != posted_.load(std::memory_order_acquire);
    }
    void consume(std::uint64_t position) noexcept
    {
        SOFTRDMA_ASSERT(
                position != posted_.load(std::memory_order_relaxed)); // a receive is posted before it is consumed
        consumed_.store(position + 1, std::memory_order_release);
    }
    receive_request request_at(std::uint64_t position) const noexcept;
    void on_network_message() noexcept;
    void on_memory_messages(std::uint32_t messages) noexcept;
    bool take_delivered(ibv_wc &wc);
    ibv_wc_status admit(std::uint64_t position, const receive_slots::message &m);
    bool fetch(std::uint64_t position, const receive_slots::message &m);
    bool scatter(const std::byte *at, std::uint64_t position, std::uint32_t length) const;
    bool scatter_sges(const std::byte *at, std::span<const ibv_sge> sges, std::uint32_t length) const;
    bool place(const ibv_sge &sge, const std::byte *at, std::uint32_t length) const;
    rq_wqe &wqe_of(std::uint64_t position) noexcept { return wqes_[slots_.index(position)]; }
    const rq_wqe &wqe_of(std::uint64_t position) const noexcept { return wqes_[slots_.index(position)]; }
    ibv_sge *sges_of(std::uint64_t position) noexcept { return &sges_[slots_.index(position) * max_sge_]; }
    const ibv_sge *sges_of(std::uint64_t position) const noexcept { return &sges_[slots_.index(position) * max_sge_]; }

    ibv_qp &qp_;
    const region_table &regions_ = region_table::instance();
    receive_slots slots_;
    shared_receive_queue *srq_ = nullptr;
    std::uint32_t max_sge_ = 0;
    std::uint32_t peer_qpn_ = 0;
    std::uint64_t domain_ = 0;           // protection domain of the receives
    std::uint32_t network_expected_ = 0; // number of messages for which polls also check the network
    static constexpr std::uint64_t unknown = UINT64_MAX;
    // Private state of a receive, which no peer can change.
    struct alignas(cache_line) rq_wqe {
        std::uint64_t wr_id;
        std::uint16_t sge_count;
        std::uint32_t capacity; // bytes
        std::uint64_t token;    // token of receive_slots::lend()
        // Cached address of a receive in a single segment of plain memory, valid for this number of removals.
        std::uint64_t removals = unknown;
        ibv_sge segment;
        std::byte *address;
    };
    std::vector<rq_wqe> wqes_;
    std::vector<ibv_sge> sges_;
    std::atomic<std::uint64_t> posted_;
    std::atomic<std::uint64_t> consumed_;
    std::atomic<bool> held_{false};
    // Section word for placing messages. Deregistration may poll it longer than this ring exists.
    const std::shared_ptr<std::atomic<std::uint32_t>> scattering_ = std::make_shared<std::atomic<std::uint32_t>>(0);
    std::optional<reader_list::entry> scattering_watch_;
    std::optional<reader_list::entry> operation_watch_;
    reserve::prepared_call report_call_; // guarded by the lock of the completion queue; empty while it is deferred
};

} // namespace softrdma
