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
    // NULL: each CQ has a channel of its own.
    const ibv_comp_channel *shared_channel() const { return parts_.shared_channel.get(); }
    rpma_conn_private_data private_data() const { return private_data_.view(); }
    rpma_cq *cq() { return &parts_.cq; }
    rpma_cq *rcq() { return parts_.rcq_or_null(); }

    void set_direct_write_to_pmem(bool supported);

    // What the operations use. The queue pairs are those of the device, or of the batch while it keeps something.
    ibv_qp *qp() const { return targets_.qp.load(std::memory_order_relaxed); }
    const rpma::flush &flush() const { return flush_; }
    // NULL: emulate.
    ibv_qp_ex *native_flush() const { return targets_.flush.load(std::memory_order_relaxed); }
    ibv_qp_ex *native_atomic_write() const { return targets_.atomic_write.load(std::memory_order_relaxed); }
    bool has_native_atomic_write() const { return device_.atomic_write != nullptr; }
    unsigned native_atomic_write_flags() const { return native_atomic_write_flags_; }
    // The RPMA_MR_USAGE_FLUSH_TYPE_* that the remote peer supports on this connection.
    unsigned flush_types() const { return flush_types_.load(std::memory_order_relaxed); }

    // What keeps work requests; NULL without memory, and then they are posted at once.
    rpma::rdma::batch *batch_to_keep_in();
    // Posts what is kept. 0, or RPMA_E_PROVIDER.
    int ring();
    std::uint32_t qp_num() const { return parts_.id->qp->qp_num; }

    // Of the operations, which add to it.
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
    // Made by the first operation that is to be kept.
    std::atomic<rpma::rdma::batch *> batch_ = nullptr;

    // The last message of the handshake can be lost, or come late, on its way to an accepting side. The other side
    // knows that the connection stands: what it did until it disconnected was acknowledged, and is not to be taken for
    // a failed attempt. Nor can this side disconnect meanwhile: the connection manager forgets the request.
    enum class accept_state {
        reported,
        accepted,    // RPMA_CONN_ESTABLISHED is to come
        left_early,  // as before, and the program has disconnected
        closed_early // it was given when the end came, and RPMA_CONN_CLOSED is to follow
    };
    bool transition(accept_state from, accept_state to) { return accept_state_.compare_exchange_strong(from, to); }
    std::atomic<accept_state> accept_state_ = accept_state::reported;
};
