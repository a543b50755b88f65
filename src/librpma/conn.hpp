// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

#include "conn_parts.hpp"
#include "counters.hpp"
#include "flush.hpp"
#include "private_data.hpp"
#include "rdma/batch.hpp"

struct rpma_conn : heap_object {
public:
    rpma_conn(rpma::conn_parts &&parts, rpma::flush &&flush, rpma::private_data &&data);
    ~rpma_conn();
    rpma::errc close();

    rpma::errc connect(const rpma_conn_private_data *pdata);
    rpma::errc accept(const rpma_conn_private_data *pdata);
    rpma::errc disconnect();
    rpma::errc next_event(rpma_conn_event *event);

    struct completion {
        rpma_cq *cq;
        bool is_rcq;
    };
    rpma::result<completion> wait();

    int event_fd() const { return parts_.event_channel->fd; }
    // NULL if each CQ has its own channel.
    const ibv_comp_channel *shared_channel() const { return parts_.shared_channel.get(); }
    rpma_conn_private_data private_data() const { return private_data_.view(); }
    rpma_cq *cq() { return &parts_.cq; }
    rpma_cq *rcq() { return parts_.rcq_or_null(); }

    void set_direct_write_to_pmem(bool supported);

    // Queue pairs for operations: of the device, or of the batch while it contains work requests.
    ibv_qp *qp() const { return targets_.qp.load(std::memory_order_relaxed); }
    const rpma::flush &flush() const { return flush_; }
    // NULL if emulated.
    ibv_qp_ex *native_flush() const { return targets_.flush.load(std::memory_order_relaxed); }
    ibv_qp_ex *native_atomic_write() const { return targets_.atomic_write.load(std::memory_order_relaxed); }
    bool has_native_atomic_write() const { return device_.atomic_write != nullptr; }
    unsigned native_atomic_write_flags() const { return native_atomic_write_flags_; }
    // The RPMA_MR_USAGE_FLUSH_TYPE_* that the remote peer supports on this connection.
    unsigned flush_types() const { return flush_types_.load(std::memory_order_relaxed); }

    // Queue of work requests. NULL if out of memory: they are then posted immediately.
    rpma::rdma::batch *queueing_batch();
    int submit() { return rpma::rdma::submit(batch_); }
    std::uint32_t qp_num() const { return parts_.id->qp->qp_num; }

    rpma::counters &counters() { return counters_; }
    const rpma::counters &counters() const { return counters_; }

private:
    rpma::rdma::post_targets targets_;
    rpma::rdma::device_targets device_;
    unsigned native_atomic_write_flags_ = 0;
    std::atomic<unsigned> flush_types_ = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
    rpma::counters counters_;

    rpma::conn_parts parts_;
    rpma::flush flush_;
    rpma::private_data private_data_;
    rpma::rdma::batch_pointer batch_ = nullptr;

    // The last message of the handshake to the accepting side can be lost or late. The peer considers the connection
    // established: its operations were acknowledged, so the attempt must not be reported as failed. The local side
    // cannot disconnect yet, because the connection manager ignores the request.
    enum class accept_state {
        reported,
        accepted,    // RPMA_CONN_ESTABLISHED must follow
        left_early,  // like accepted, but the program has disconnected
        closed_early // reported on disconnection; RPMA_CONN_CLOSED must follow
    };
    bool transition(accept_state from, accept_state to) { return accept_state_.compare_exchange_strong(from, to); }
    std::atomic<accept_state> accept_state_ = accept_state::reported;
};
