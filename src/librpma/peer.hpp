// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap.hpp"
#include "rdma/capabilities.hpp"
#include "rdma/cm.hpp"
#include "rdma/verbs.hpp"

struct rpma_peer : heap_object {
public:
    static rpma::result<rpma_peer *> create(ibv_context *context);
    rpma::errc close() { return pd_.close(); }

    ibv_pd *pd() const { return pd_.get(); }
    const rpma::rdma::library &library() const { return pd_.library(); }

    std::uint32_t max_message() const { return capabilities_.max_message; }

    struct registration {
        rpma::rdma::mr_handle mr;
        bool visibility_only; // the native flush of the device does not reach persistence there
    };

    rpma::result<registration> register_memory(void *ptr, std::size_t size, int usage) const;

    // Returns whether remote peers can flush natively, independent of the local method.
    bool has_native_flush() const { return capabilities_.native_flush; }

    // send_op_* to request when a queue pair is created.
    std::uint64_t native_send_ops() const { return native_send_ops_; }

private:
    rpma_peer(rpma::rdma::pd_handle &&pd, const rpma::rdma::capabilities &capabilities, std::uint64_t native_send_ops)
        : pd_(std::move(pd)), capabilities_(capabilities), native_send_ops_(native_send_ops)
    {
    }

    int access_for(int usage) const;
    rpma::result<rpma::rdma::mr_handle> register_maybe_on_demand(void *ptr, std::size_t size, int access) const;

    rpma::rdma::pd_handle pd_;
    const rpma::rdma::capabilities capabilities_;
    const std::uint64_t native_send_ops_;
};
