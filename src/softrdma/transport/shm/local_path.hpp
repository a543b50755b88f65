// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/channel.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/wqe.hpp"

#include <vector>

namespace softrdma
{

enum class execution {
    done,
    no_receive, // the peer has to post one first
    by_peer,    // has to be sent over the network: this side cannot do it, or must not
    failed,     // the memory of the peer could not be used
    peer_lost,
    not_durable,
};

// Executes requests in the memory of a peer of this host, while the peer may sleep. Guarded by the queue pair's lock.
// It never refuses anything: what it cannot do is left to the peer, whose answer is the truth.
class alignas(local::line) local_path
{
public:
    local_path(std::shared_ptr<local::channel> channel, local::qp_block &own, ibv_pd *pd)
        : channel_(std::move(channel)), own_(own), pd_(pd)
    {
        channel_->show_use_in(own.region_in_use);
    }

    // To be called inside the epoch.
    execution execute(const wqe &w);
    std::atomic<std::uint32_t> &epoch() noexcept { return own_.epoch; }
    // True if the message is to be tried again now: a receive has been posted, or the peer's queue pair is not open any
    // more. Else the peer says when it posts one.
    bool ask_for_receive() noexcept;
    std::uint32_t peer_rnr_timer() const noexcept { return channel_->peer_rnr_timer(); }
    // False if that is not certain.
    bool is_out_of_reach(const wqe &w) const noexcept;
    // The peer will execute a request of that kind, and what is durable after it.
    void left_to_peer(ibv_wr_opcode opcode) noexcept
    {
        if (opcode != native::wr_flush)
            peer_has_dirty_ = opcode != IBV_WR_RDMA_READ;
    }
    void receive_is_posted() noexcept { channel_->receive_is_posted(); }
    // The peer has executed a request that consumed one of its receives.
    void peer_consumed_receive() noexcept { channel_->skip_receive(); }
    // The peer's private memory is reached by the network only.
    bool leaves_private_memory() const noexcept { return !channel_->peer().is_open(); }

private:
    struct dirty_range {
        std::shared_ptr<local::file_mapping> file;
        std::uint64_t begin;
        std::uint64_t end;
    };

    // The pieces of our memory that a request names; false if one is not registered.
    bool collect(const wqe &w, int access, std::span<const iovec> &pieces);
    execution write(const wqe &w);
    execution read(const wqe &w);
    execution without_receive(const wqe &w);
    execution send(const wqe &w);
    execution write_and_notify(const wqe &w);
    execution deliver(const wqe &w, std::uint8_t kind, std::span<const iovec> from);
    execution write_word(const wqe &w);
    execution flush(const wqe &w);
    void note_store(const local::remote_region &r, std::uint32_t bytes);
    void note_first_store(std::uint64_t begin, std::uint32_t bytes);
    bool make_durable();

    std::shared_ptr<local::channel> channel_;
    local::qp_block &own_;
    ibv_pd *pd_;
    const region_table &regions_ = region_table::instance();
    bool peer_has_dirty_ = false; // what the peer stored for us, only it can make durable
    std::array<iovec, limits::max_sge> pieces_;
    std::vector<dirty_range> dirty_;
};

} // namespace softrdma
