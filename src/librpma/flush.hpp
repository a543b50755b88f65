// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "mr.hpp"

namespace rpma
{

// Flush method of a connection: native, or a read after the writes into a small local region.
class flush
{
public:
    // `native_ops`: the send_op_* that the queue pair supports.
    static result<flush> create(const rpma_peer &peer, ibv_qp *qp, std::uint64_t native_ops);
    errc close();

    ibv_qp_ex *native() const { return native_; }

    // Destination of a read of at most 8 bytes that emulates a flush.
    ibv_sge read_target(std::uint32_t length) const { return {target_, length, target_lkey_}; }

private:
    errc create_target(const rpma_peer &peer);

    class page
    {
    public:
        page() = default;
        page(page &&other) noexcept : address_(std::exchange(other.address_, nullptr)), size_(other.size_) {}
        page &operator=(page &&) = delete;
        ~page() { (void)close(); }
        errc map();
        errc close();
        void *address() const { return address_; }

    private:
        void *address_ = nullptr;
        std::size_t size_ = 0;
    };

    ibv_qp_ex *native_ = nullptr;
    std::uint64_t target_ = 0;
    std::uint32_t target_lkey_ = 0;
    page page_;
    rdma::mr_handle mr_;
};

} // namespace rpma
