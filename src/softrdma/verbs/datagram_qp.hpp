// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/read_section.hpp"
#include "base/sleeping_lock.hpp"
#include "fault/rules.hpp"
#include "transport/datagram_path.hpp"
#include "verbs/cq.hpp"
#include "verbs/qp_object.hpp"
#include "verbs/shared_receive_queue.hpp"
#include "verbs/send_queue.hpp"

namespace softrdma
{

// Unreliable-datagram queue pair. Its lock makes verbs calls and the receive path atomic.
class datagram_qp final : public qp_object,
                          public completion_source,
                          public datagram_receiver,
                          public std::enable_shared_from_this<datagram_qp>
{
public:
    // Rounds the limits in `attr`, which check_limits() has accepted, up to the granted values.
    static std::shared_ptr<datagram_qp> create(ibv_pd *pd, ibv_qp_init_attr &attr, std::unique_ptr<datagram_path> path);
    datagram_qp(ibv_pd *pd, const ibv_qp_init_attr &attr, std::unique_ptr<datagram_path> path);

    ~datagram_qp() override;

    void destroy(); // ends sends, receives and completions; the caller must hold a reference
    void completions_lost(ibv_cq *cq) override;

    int modify(const ibv_qp_attr &attr, int mask) override;
    void query(ibv_qp_attr &attr, ibv_qp_init_attr &init) override;
    int post_send(ibv_send_wr *wr, ibv_send_wr **bad) override;
    int submit_batch(std::uint32_t count) override;
    send_queue &sends() noexcept override { return queue_; }
    int post_receive(ibv_recv_wr *wr, ibv_recv_wr **bad) override;

    void arrived(const datagram &d, const network_header &header) override;

    std::string report(); // line of `key=value`; empty if the queue pair is destroyed

private:
    bool accepts_sends() const noexcept REQUIRES(mutex_) { return state() >= IBV_QPS_RTS; }
    bool receives() const noexcept REQUIRES(mutex_)
    {
        return state() >= IBV_QPS_RTR && state() != IBV_QPS_ERR && !destroyed_;
    }
    ibv_qp_state state() const noexcept REQUIRES(mutex_) { return attr_.qp_state; }
    void set_state(ibv_qp_state to) noexcept REQUIRES(mutex_)
    {
        attr_.qp_state = attr_.cur_qp_state = to;
        show_state(to);
    }
    void reset() noexcept REQUIRES(mutex_);
    void fail() REQUIRES(mutex_);
    void pump() REQUIRES(mutex_);
    void flush_sends() REQUIRES(mutex_)
    {
        while (!queue_.empty())
            queue_.pop_front(IBV_WC_WR_FLUSH_ERR);
    }
    void flush_receives() REQUIRES(mutex_);
    ibv_wc_status send(const wqe &w) REQUIRES(mutex_);
    bool find_sge(const wqe &w, iovec &segment) const;
    ibv_wc_status send_with_fault(const fault::verdict &verdict, const datagram &d, const datagram_route &route,
            std::span<const iovec> payload);
    // Returns NULL if no receive is posted. Valid until the next post or take; `space` is for a receive of an SRQ.
    const receive_request *take_receive(receive_request &space) REQUIRES(mutex_);
    ibv_wc_status place(const receive_request &to, const network_header &header, std::span<const std::byte> payload)
            REQUIRES(mutex_);
    bool place_plain(const ibv_sge &to, std::uint64_t domain, const network_header &header,
            std::span<const std::byte> payload) REQUIRES(mutex_);

    sleeping_lock mutex_{lock_level::queue_pair};
    bool destroyed_ GUARDED_BY(mutex_) = false;
    ibv_qp_attr attr_ GUARDED_BY(mutex_){};
    send_queue queue_ GUARDED_BY(mutex_);
    receive_fifo receives_ GUARDED_BY(mutex_);
    std::uint32_t next_psn_ GUARDED_BY(mutex_) = 0;
    posted_total received_ GUARDED_BY(mutex_);
    std::uint64_t dropped_ GUARDED_BY(mutex_) = 0; // datagrams dropped for lack of a receive, or because of their Q_Key
    const std::shared_ptr<datagram_path> path_;    // also referenced by delayed datagrams
    // Section word of reading and placing datagrams. Deregistration may poll it longer than this queue pair exists.
    const std::shared_ptr<std::atomic<std::uint32_t>> epoch_ = std::make_shared<std::atomic<std::uint32_t>>(0);
    const reader_list::entry epoch_watch_;
    std::shared_ptr<datagram_qp> self_ GUARDED_BY(mutex_); // reset by destroy()
};

inline bool sends_datagrams(const ibv_qp *qp) noexcept
{
    return qp->qp_type == IBV_QPT_UD;
}

inline datagram_qp &datagram_qp_of(ibv_qp *qp) noexcept
{
    return static_cast<datagram_qp &>(object_of(qp));
}

} // namespace softrdma
