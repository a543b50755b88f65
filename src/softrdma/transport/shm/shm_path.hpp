// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/request_path.hpp"
#include "transport/shm/shm_ep.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/wqe.hpp"

#include <array>

namespace softrdma
{

// Executes requests in the memory of a peer on this host, even while the peer sleeps.
class alignas(cache_line) shm_path final : public request_path
{
public:
    shm_path(std::shared_ptr<shm_ep> ep, qp_block &own, ibv_pd *pd)
        : ep_(std::move(ep)), own_(own), domain_(domain_of(pd))
    {
        ep_->act_for(own);
    }

    post_result post(const wqe &w) override;
    std::atomic<std::uint32_t> &epoch() noexcept override { return own_.epoch; }
    bool request_receive_event() noexcept override;
    std::uint32_t peer_rnr_timer() const noexcept override { return ep_->peer_rnr_timer(); }
    bool is_unsupported(const wqe &w) const noexcept override;
    // The peer will execute the request, and make durable what it stored.
    void on_network_fallback(const wqe &w) noexcept override
    {
        if (w.op != native::wr_flush)
            peer_has_dirty_ = w.op != IBV_WR_RDMA_READ;
    }
    void on_receive_posted() noexcept override { ep_->on_receive_posted(); }
    void peer_consumed_receive() noexcept override { ep_->skip_receive(); }
    bool needs_network_for_private_memory() const noexcept override { return !ep_->peer().is_open(); }

private:
    // Collects the local memory segments of a request. Returns false if one is not registered.
    bool collect(const wqe &w, int access, std::span<const iovec> &segments);
    post_result write(const wqe &w);
    post_result read(const wqe &w);
    post_result without_receive(const wqe &w);
    post_result send(const wqe &w);
    post_result write_and_notify(const wqe &w);
    post_result deliver(const wqe &w, std::uint8_t kind, std::span<const iovec> from);
    post_result write_word(const wqe &w);
    post_result flush(const wqe &w);

    std::shared_ptr<shm_ep> ep_;
    qp_block &own_;
    const std::uint64_t domain_;
    const region_table &regions_ = region_table::instance();
    bool peer_has_dirty_ = false; // stores that only the peer can make durable
    std::array<iovec, limits::max_sge> segments_;
};

} // namespace softrdma
