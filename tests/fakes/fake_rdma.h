/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole RDMA stack inside the test process: every ibv_* and rdma_* function the library calls, over one device.
 *
 * It keeps state: objects know what they depend on and cannot be destroyed before their dependants, channels have real
 * descriptors, events wait for acknowledgement. It moves no data: posted work is recorded. Each error of the library
 * (leaks, double destruction, use of functions that it did not request) is collected for fake_problems().
 * Every function may be called from any thread. Strings and pointers returned live until the next call of the same
 * function.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FAKE_CAP_FLUSH_GLOBAL = 38, /* bit numbers of device_cap_flags_ex */
    FAKE_CAP_FLUSH_PERSISTENT = 39,
    FAKE_CAP_ATOMIC_WRITE = 40,

    FAKE_ACCESS_FLUSH_GLOBAL = 1 << 8,
    FAKE_ACCESS_FLUSH_PERSISTENT = 1 << 9,

    FAKE_SEND_OPS_CLASSIC = (1 << 5) - 1, /* writes, sends and reads */
    FAKE_SEND_OPS_FLUSH = 1 << 11,
    FAKE_SEND_OPS_ATOMIC_WRITE = 1 << 12,

    FAKE_PORTS = 4
};

/* Properties of the device. A test must change them before the call that they affect. */
struct fake_traits {
    uint64_t capabilities; /* device_cap_flags_ex */
    uint64_t odp_general;
    uint32_t odp_rc;
    enum ibv_transport_type transport;
    bool absent;   /* the list of devices is empty */
    bool software; /* the device is the one of softrdma */
    unsigned ports;
    uint32_t max_msg_sz[FAKE_PORTS];
    bool without_extended_query; /* only the calls of the oldest libibverbs can query it */
    bool without_advise;         /* no advise_mr */
    int advise_error;            /* errno of advise_mr, 0 for success */
    bool extended_qps;           /* every QP has the extended view, as with mlx5 */
    bool without_wr_flush;       /* the view grants flush, but lacks its function */
    bool without_wr_atomic_write;
    int send_ops_error;     /* errno for a QP with send_ops_flags, 0 if it is granted */
    int persistent_error;   /* errno for memory registered with FLUSH_PERSISTENT, 0 if it is accepted */
    bool unpinnable;        /* memory needs ON_DEMAND, otherwise EOPNOTSUPP */
    unsigned addresses;     /* results of rdma_getaddrinfo */
    unsigned bad_addresses; /* number of addresses at the beginning that cannot be bound or resolved */
    unsigned bad_routes;    /* number of addresses at the beginning that have no route */
    int name_error;         /* result of rdma_getaddrinfo, 0 for success */
    bool ipv6;              /* resolved addresses are IPv6 */
    unsigned send_room; /* number of requests that one ibv_post_send accepts, 0 for all; the others fail with ENOMEM */
    unsigned poll_surplus;   /* number of entries that ibv_poll_cq reports beyond the requested ones */
    bool alloc_pd_is_silent; /* ibv_alloc_pd fails without setting errno */
};

struct fake_traits *fake_device(void);

/* Returns the device's context, configured like fake_device(). Called before threads use the device. */
struct ibv_context *fake_context(void);

/* Gives the device native flush and native atomic write. */
void fake_make_native(void);

/* Resets the state, and gives the device its default properties: one port, one address, InfiniBand, no capabilities. */
void fake_reset(void);

/* Objects */

enum fake_kind {
    FAKE_PD,
    FAKE_MR,
    FAKE_COMP_CHANNEL,
    FAKE_CQ,
    FAKE_SRQ,
    FAKE_QP,
    FAKE_CM_ID,
    FAKE_EVENT_CHANNEL,
    FAKE_ADDRINFO,
    FAKE_CM_EVENT,
    FAKE_KINDS
};

unsigned fake_count(enum fake_kind kind);

/* The index-th oldest object of the kind, as its struct ibv_* or rdma_*; NULL if there is none. */
void *fake_live(enum fake_kind kind, unsigned index);

/* Text that lists every misuse and every object that remains, "" if there is none. */
const char *fake_problems(void);

/* Calls */

/* Names of the calls since the last fake_forget_calls(), separated by spaces. */
const char *fake_calls(void);
void fake_forget_calls(void);

/*
 * The n-th call after this one that can fail fails with the errno value error (n is 1 for the next). If persistent, all
 * later calls fail too, each with an errno value one higher. If n is 0, all calls succeed again.
 */
void fake_fail_call(unsigned n, int error, bool persistent);

/* Makes fake_fail_call() count only calls of this name; NULL for all. fake_fail_call(0, 0, false) resets it. */
void fake_fail_only(const char *name);

/* Name of the call that failed first, NULL if none did. */
const char *fake_failed_call(void);

/* Arguments of the latest calls. */
struct fake_arguments {
    char node[64];
    char service[16];
    struct rdma_addrinfo hints;
    int resolve_addr_timeout_ms;
    int resolve_route_timeout_ms;
    int backlog;
    unsigned ack_timeout; /* argument of rdma_set_option; 0 if not requested */
    int access;
    void *mr_addr;
    size_t mr_length;
    bool device_query_had_input;
    int solicited_only;
    struct ibv_qp_init_attr_ex qp_attributes;
    struct ibv_srq_init_attr srq_attributes;
    struct rdma_conn_param connect_parameters;
    int advice;
    uint32_t advice_flags;
    struct ibv_sge advice_range;
    struct ibv_pd *advice_pd;
};

const struct fake_arguments *fake_seen(void);

enum fake_work_kind {
    FAKE_WORK_SEND, /* ibv_post_send; opcode contains the operation */
    FAKE_WORK_RECV,
    FAKE_WORK_SRQ_RECV,
    FAKE_WORK_FLUSH, /* native */
    FAKE_WORK_ATOMIC_WRITE
};

struct fake_work {
    enum fake_work_kind kind;
    void *queue; /* struct ibv_qp or struct ibv_srq */
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    unsigned flags;
    uint32_t imm_data;
    uint64_t remote_addr;
    uint32_t rkey;
    bool has_next;
    bool has_bad_wr;
    int num_sge;
    struct ibv_sge sge;
    unsigned char data[8]; /* inline data */
    size_t flush_length;
    uint8_t flush_placement;
    uint8_t flush_level;
};

unsigned fake_work_count(void);
const struct fake_work *fake_work_at(unsigned index);
const struct fake_work *fake_last_work(void);

/* Adds a completion to the CQ, or none if wc is NULL, and fires the CQ's event if it is armed. */
void fake_complete(struct ibv_cq *cq, const struct ibv_wc *wc);

/* Fires the CQ's event even if it is not armed. */
void fake_fire(struct ibv_cq *cq);

/* Connection management */

/* Simulates a client that requests a connection from the oldest listener. */
void fake_incoming(const void *private_data, uint8_t length);

/* Queues an event for the identifier. */
void fake_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, const void *private_data, uint8_t length);

#ifdef __cplusplus
}
#endif
