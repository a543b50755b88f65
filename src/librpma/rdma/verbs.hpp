// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma/handle.hpp"

// Functions of libibverbs, except those that post work and query devices. They log failures.
namespace rpma::rdma
{

errc destroy_pd(const library &lib, ibv_pd *pd);
errc destroy_mr(const library &lib, ibv_mr *mr);
errc destroy_comp_channel(const library &lib, ibv_comp_channel *channel);
errc destroy_cq(const library &lib, ibv_cq *cq);
errc destroy_srq(const library &lib, ibv_srq *srq);

using pd_handle = handle<ibv_pd, destroy_pd>;
using mr_handle = handle<ibv_mr, destroy_mr>;
using comp_channel_handle = handle<ibv_comp_channel, destroy_comp_channel>;
using cq_handle = handle<ibv_cq, destroy_cq>;
using srq_handle = handle<ibv_srq, destroy_srq>;

result<pd_handle> alloc_pd(ibv_context *context);

// Failures are not logged, because the caller may have an alternative. Sets errno.
result<mr_handle> register_memory(ibv_pd *pd, void *ptr, std::size_t size, int access);
errc advise_memory(ibv_mr *mr, std::size_t offset, std::uint32_t length, int advice, std::uint32_t flags);

result<comp_channel_handle> create_comp_channel(ibv_context *context);
// Arms the CQ for every completion.
result<cq_handle> create_cq(ibv_context *context, int entries, ibv_comp_channel *channel);
errc arm_cq(ibv_cq *cq);
result<srq_handle> create_srq(ibv_pd *pd, std::uint32_t max_receives);

// NULL if the queue pair was not created for the extended operations.
ibv_qp_ex *extended(ibv_qp *qp);

// Waits for an event and acknowledges it. Returns no_completion, with the reason in errno, without one.
result<ibv_cq *> next_completion_event(ibv_comp_channel *channel);

} // namespace rpma::rdma
