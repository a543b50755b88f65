// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <pthread.h>

#include "heap.hpp"
#include "rdma/work_request.hpp"

namespace rpma::rdma
{

// Queue pairs that the operations of a connection post to: those of the batch while work requests are queued.
struct post_targets {
    std::atomic<ibv_qp *> qp;
    std::atomic<ibv_qp_ex *> flush;        // NULL if emulated
    std::atomic<ibv_qp_ex *> atomic_write; // NULL if emulated
};

struct device_targets {
    ibv_qp *qp;
    ibv_qp_ex *flush;
    ibv_qp_ex *atomic_write;
};

// Set in the send flags of a work request that must be queued. No IBV_SEND_* has this bit.
inline constexpr unsigned queue_flag = 1U << 31;

class batch;
// Created by the first operation of a connection with RPMA_F_MORE; NULL before.
using batch_pointer = std::atomic<batch *>;
// Posts the queued work requests, if any. Returns 0 or RPMA_E_PROVIDER.
int submit(const batch_pointer &queued);

// Queues work requests and posts them as one chain. Callers use it like a queue pair.
class batch : public heap_object
{
public:
    batch(post_targets &targets, const device_targets &device); // both outlive the batch
    ~batch() { (void)pthread_mutex_destroy(&lock_); }
    batch(const batch &) = delete;
    batch &operator=(const batch &) = delete;

    ibv_qp *qp() { return &view_.extended.base.qp_base; }
    ibv_qp_ex *flush() { return device_.flush != nullptr ? &view_.extended.base : nullptr; }
    ibv_qp_ex *atomic_write() { return device_.atomic_write != nullptr ? &view_.extended.base : nullptr; }

    // Posts the queued work requests. Returns 0, or the errno value of the device after dropping the rest.
    int submit();

private:
    static constexpr std::size_t capacity = 64;

    enum class kind : std::uint8_t {
        classic, // described by wr
        native_flush,
        native_atomic_write
    };
    struct request {
        ibv_send_wr wr;
        enum kind kind;
        ibv_sge sge;
        std::array<char, RPMA_ATOMIC_WRITE_ALIGNMENT> data;
        std::size_t flush_length;
        std::uint8_t placement;
        std::uint8_t level;
    };

    // First member: the data path uses it as the queue pair.
    struct view {
        qp_ex_with_flush extended;
        batch *owner;
    };
    static batch &of(ibv_qp *qp) { return *reinterpret_cast<view *>(qp)->owner; }
    static batch &of(ibv_qp_ex *qpx) { return of(&qpx->qp_base); }

    static int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad_wr);
    static int post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr);
    static void wr_start(ibv_qp_ex *qpx);
    static void wr_flush(ibv_qp_ex *qpx, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length,
            std::uint8_t placement, std::uint8_t level);
    static void wr_atomic_write(ibv_qp_ex *qpx, std::uint32_t rkey, std::uint64_t remote_addr, const void *src);
    static int wr_complete(ibv_qp_ex *qpx);

    request &add(enum kind of_kind); // the caller must hold the lock
    request &add_native(enum kind of_kind, std::uint32_t rkey, std::uint64_t remote_addr);
    int added(bool keep);
    int post_all();
    int post_chain();
    int post_natively();
    static void start_classic(ibv_qp_ex *qpx, const request &next);
    void route_to_batch();
    void route_to_device();

    post_targets &targets_;
    const device_targets &device_;
    ibv_context context_;
    view view_;
    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    std::size_t queued_ = 0;
    bool has_native_ = false;
    std::array<request, capacity> requests_;
};

} // namespace rpma::rdma
