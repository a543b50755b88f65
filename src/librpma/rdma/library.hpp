// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "error.hpp"

namespace rpma::rdma
{

// Functions of libibverbs and librdmacm, called through a table because libsoftrdma exports the same names.
#define RPMA_RDMA_FUNCTIONS(FUNCTION)                                                                                  \
    FUNCTION(ibv_get_device_list)                                                                                      \
    FUNCTION(ibv_free_device_list)                                                                                     \
    FUNCTION(ibv_alloc_pd)                                                                                             \
    FUNCTION(ibv_dealloc_pd)                                                                                           \
    FUNCTION(ibv_reg_mr)                                                                                               \
    FUNCTION(ibv_dereg_mr)                                                                                             \
    FUNCTION(ibv_create_comp_channel)                                                                                  \
    FUNCTION(ibv_destroy_comp_channel)                                                                                 \
    FUNCTION(ibv_create_cq)                                                                                            \
    FUNCTION(ibv_destroy_cq)                                                                                           \
    FUNCTION(ibv_get_cq_event)                                                                                         \
    FUNCTION(ibv_ack_cq_events)                                                                                        \
    FUNCTION(ibv_create_srq)                                                                                           \
    FUNCTION(ibv_destroy_srq)                                                                                          \
    FUNCTION(ibv_qp_to_qp_ex)                                                                                          \
    FUNCTION(rdma_getaddrinfo)                                                                                         \
    FUNCTION(rdma_freeaddrinfo)                                                                                        \
    FUNCTION(rdma_create_event_channel)                                                                                \
    FUNCTION(rdma_destroy_event_channel)                                                                               \
    FUNCTION(rdma_create_id)                                                                                           \
    FUNCTION(rdma_destroy_id)                                                                                          \
    FUNCTION(rdma_bind_addr)                                                                                           \
    FUNCTION(rdma_listen)                                                                                              \
    FUNCTION(rdma_resolve_addr)                                                                                        \
    FUNCTION(rdma_resolve_route)                                                                                       \
    FUNCTION(rdma_create_qp_ex)                                                                                        \
    FUNCTION(rdma_destroy_qp)                                                                                          \
    FUNCTION(rdma_migrate_id)                                                                                          \
    FUNCTION(rdma_set_option)                                                                                          \
    FUNCTION(rdma_connect)                                                                                             \
    FUNCTION(rdma_accept)                                                                                              \
    FUNCTION(rdma_reject)                                                                                              \
    FUNCTION(rdma_disconnect)                                                                                          \
    FUNCTION(rdma_get_cm_event)                                                                                        \
    FUNCTION(rdma_ack_cm_event)

struct library {
#define RPMA_DECLARE(name) decltype(&::name) name;
    RPMA_RDMA_FUNCTIONS(RPMA_DECLARE)
#undef RPMA_DECLARE

    static const library &system();

    // softrdma: the system's libraries if softrdma replaces them, otherwise libsoftrdma.so, which is loaded once and
    // never unloaded. Otherwise returns errc::provider and logs the reason. errno is ELIBACC if it cannot be loaded, or
    // the shortage of this process or machine.
    static result<const library *> software();

    static const library &of(const ibv_context *context);

    result<bool> has_hardware() const;
};

// Returns whether the context belongs to a device of softrdma, regardless of how softrdma was loaded.
bool is_software(const ibv_context *context);

} // namespace rpma::rdma
