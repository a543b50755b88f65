/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librpma: read, write, atomically write and flush persistent memory of another machine over RDMA, and exchange
 * messages with it.
 *
 * Conventions, stated once. They hold for every function below unless its comment says otherwise.
 *
 * Return value   0 on success, a negative RPMA_E_* code on failure. An argument that must not be NULL and is
 *                NULL gives RPMA_E_INVAL; arguments are checked before anything else happens.
 * Outputs        written on success only.
 * errno          after RPMA_E_PROVIDER: the value of the first provider call that failed. Success never sets it.
 * Ownership      *_new, *_from_descriptor, *_reg, *_listen and *_connect hand an object to the caller, who returns
 *                it to the matching *_delete, *_dereg, *_shutdown. Those take the address of the handle, set the
 *                handle to NULL, accept a handle that is NULL already, and give RPMA_E_INVAL for a NULL address. When a
 *                provider step fails they finish the others, free the object and return the first error.
 *                A peer outlives everything made from it. A cfg is only read during the call it is passed to.
 * Threads        distinct objects may always be used concurrently. The same object may be used concurrently by
 *                every function except those marked [1] and those that take an object back, which need it to
 *                themselves.
 * Blocking       functions marked [B] may wait. Waiting on a descriptor set to O_NONBLOCK gives RPMA_E_NO_EVENT or
 *                RPMA_E_NO_COMPLETION instead. A signal does not end a wait.
 */
#ifndef LIBRPMA_H
#define LIBRPMA_H 1

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdbool.h>
#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The version of this header, and of the library that runs, as major << 16 | minor << 8 | patch. What came after 1.3.0
 * says so below; a program that uses nothing of it runs on 1.3.0, whichever header it was built with.
 */
#define LIBRPMA_VERSION_MAJOR 1
#define LIBRPMA_VERSION_MINOR 4
#define LIBRPMA_VERSION_PATCH 0
#define LIBRPMA_VERSION (LIBRPMA_VERSION_MAJOR << 16 | LIBRPMA_VERSION_MINOR << 8 | LIBRPMA_VERSION_PATCH)

/* Since 1.4. */
unsigned rpma_version(void);

/* Reserved; no function takes it. */
#define RPMA_W_WAIT_FOR_COMPLETION (1)

/* Error codes */

#define RPMA_E_UNKNOWN (-100000)         /* a failure of no other class */
#define RPMA_E_NOSUPP (-100001)          /* not supported by the device, the region or the remote peer */
#define RPMA_E_PROVIDER (-100002)        /* a call to libibverbs or librdmacm failed, see errno */
#define RPMA_E_NOMEM (-100003)           /* out of memory */
#define RPMA_E_INVAL (-100004)           /* an argument is NULL, out of range or contradicts another */
#define RPMA_E_NO_COMPLETION (-100005)   /* no completion to collect */
#define RPMA_E_NO_EVENT (-100006)        /* no connection event to collect */
#define RPMA_E_AGAIN (-100007)           /* a temporary failure */
#define RPMA_E_SHARED_CHANNEL (-100008)  /* the CQ's completion channel is shared: use rpma_conn_wait */
#define RPMA_E_NOT_SHARED_CHNL (-100009) /* the connection has no shared completion channel */

/* Static English text for an error code, never NULL. */
const char *rpma_err_2str(int ret);

/* Devices */

/* Time-out of address and route resolution unless rpma_conn_cfg_set_timeout says otherwise, in milliseconds. */
#define RPMA_DEFAULT_TIMEOUT_MS 1000

enum rpma_util_ibv_context_type {
    RPMA_UTIL_IBV_CONTEXT_LOCAL, /* the device that owns a local address */
    RPMA_UTIL_IBV_CONTEXT_REMOTE /* the device through which a remote address is reached */
};

/*
 * Finds the device for addr, a host name or a numeric address. The context belongs to librdmacm and is never closed
 * by the caller. [B] up to RPMA_DEFAULT_TIMEOUT_MS per resolved address, plus name resolution.
 * RPMA_E_INVAL: unknown type. RPMA_E_PROVIDER: addr does not resolve or names no device (a wildcard address names
 * none).
 */
int rpma_utils_get_ibv_context(
        const char *addr, enum rpma_util_ibv_context_type type, struct ibv_context **ibv_ctx_ptr);

enum rpma_device_kind {
    RPMA_DEVICE_ANY,
    RPMA_DEVICE_HARDWARE,
    RPMA_DEVICE_SOFTWARE
};

/*
 * The same for a device of a kind: an RDMA device (HARDWARE: the kernel has it, SoftRoCE too), the software device
 * softrdma, or ANY, which is the former if one has addr and otherwise the latter. softrdma is loaded from beside this
 * library unless the process runs on it already; its context is for rpma_peer_new, not for functions of libibverbs.
 * Since 1.4. The environment variable RPMA_DEVICE (any, hardware, software) makes rpma_utils_get_ibv_context do the
 * same; RPMA_E_INVAL: another value. RPMA_E_INVAL: also an unknown type or kind. RPMA_E_PROVIDER: also ENODEV, no RDMA
 * device; ELIBACC, no softrdma.
 */
int rpma_utils_get_ibv_context_of_kind(const char *addr, enum rpma_util_ibv_context_type type,
        enum rpma_device_kind kind, struct ibv_context **ibv_ctx_ptr);

/* *kind becomes RPMA_DEVICE_HARDWARE or RPMA_DEVICE_SOFTWARE. Since 1.4. */
int rpma_utils_ibv_context_get_kind(struct ibv_context *ibv_ctx, enum rpma_device_kind *kind);

/*
 * *is_odp_capable becomes 1 if the device can register memory that cannot be pinned (On-Demand Paging, for READ and
 * WRITE on RC), such as a file on a DAX file system, and 0 if not. RPMA_E_PROVIDER: the device cannot be queried.
 */
int rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable);

/* Peer configuration: what one side tells the other about itself */

struct rpma_peer_cfg;

/* Direct write to PMem is off. RPMA_E_NOMEM. */
int rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr);
int rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr);

/*
 * Whether data that has reached this peer's point of visibility is persistent as well, which makes
 * RPMA_FLUSH_TYPE_PERSISTENT possible. True on a platform that writes RDMA data past the CPU caches to PMem.
 */
int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg *pcfg, bool supported);
int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg *pcfg, bool *supported);

/* The descriptor, 1 byte, travels to the other side by any means. get_descriptor writes it to desc. */
int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc);
int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *desc_size);

/* Surplus bytes are ignored. RPMA_E_INVAL: desc_size is 0. RPMA_E_NOMEM. */
int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size, struct rpma_peer_cfg **pcfg_ptr);

/* Peer: a protection domain on one device */

struct rpma_peer;

/*
 * ibv_ctx comes from rpma_utils_get_ibv_context or another librdmacm source and outlives the peer.
 * The environment variables RPMA_FLUSH_METHOD and RPMA_ATOMIC_WRITE_METHOD are read here: "auto" (default) flushes or
 * writes atomically by the device's own operation where it has one, "native" insists (RPMA_E_NOSUPP if it has none),
 * "emulated" always does without; use it towards servers whose device has none. RPMA_E_INVAL: one of them has another
 * value. RPMA_E_PROVIDER, RPMA_E_NOMEM, RPMA_E_UNKNOWN (no protection domain and no errno).
 */
int rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr);

/* RPMA_E_PROVIDER: objects made from the peer still exist; the protection domain is then lost. */
int rpma_peer_delete(struct rpma_peer **peer_ptr);

/* Memory regions */

struct rpma_mr_local;
struct rpma_mr_remote;

#define RPMA_MR_USAGE_READ_SRC (1 << 0)              /* remote peers read from it */
#define RPMA_MR_USAGE_READ_DST (1 << 1)              /* local destination of rpma_read */
#define RPMA_MR_USAGE_WRITE_SRC (1 << 2)             /* local source of rpma_write */
#define RPMA_MR_USAGE_WRITE_DST (1 << 3)             /* remote peers write to it */
#define RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY (1 << 4) /* remote peers flush it to visibility */
#define RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT (1 << 5) /* remote peers flush it to persistence */
#define RPMA_MR_USAGE_SEND (1 << 6)                  /* source of rpma_send */
#define RPMA_MR_USAGE_RECV (1 << 7)                  /* destination of rpma_recv */

/*
 * Registers size bytes at ptr, which stay mapped until rpma_mr_dereg, for a non-empty set of RPMA_MR_USAGE_*. Memory
 * that cannot be pinned is registered with On-Demand Paging where the device has it. Memory for which a device with
 * native flush refuses persistence (ordinary DRAM) is registered all the same, with a WARNING in the log: its
 * descriptor tells peers that a native flush to persistence is to be one to visibility. RPMA_E_INVAL: size 0, usage
 * empty or with unknown bits. RPMA_E_NOMEM. RPMA_E_PROVIDER: the device refused, for example EFAULT (not mapped),
 * ENOMEM (locked-memory limit), EOPNOTSUPP (file-system DAX without On-Demand Paging).
 */
int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr_ptr);

/* No posted operation may use the region any more. RPMA_E_PROVIDER. */
int rpma_mr_dereg(struct rpma_mr_local **mr_ptr);

int rpma_mr_get_ptr(const struct rpma_mr_local *mr, void **ptr);
int rpma_mr_get_size(const struct rpma_mr_local *mr, size_t *size);

/*
 * *flush_type becomes the RPMA_MR_USAGE_FLUSH_TYPE_* bits that a native flush of a remote peer reaches in the region:
 * those that it is registered for, without PERSISTENT where the device refused it, and 0 on a device without native
 * flush. The descriptor does not tell a peer: whether it flushes natively is for the program to say. Since 1.4.
 */
int rpma_mr_get_native_flush_type(const struct rpma_mr_local *mr, int *flush_type);

/*
 * The descriptor, 21 bytes, tells a remote peer where the region is and grants access to it: keep it confidential.
 * get_descriptor writes it to desc at any alignment.
 */
int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc);
int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size);

/* Surplus bytes are ignored. RPMA_E_INVAL: desc_size below 21, or a descriptor that carries no usage. RPMA_E_NOMEM. */
int rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size, struct rpma_mr_remote **mr_ptr);

/* May be called as soon as the operations that use the region are posted. */
int rpma_mr_remote_delete(struct rpma_mr_remote **mr_ptr);
int rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size);

/* *flush_type becomes the RPMA_MR_USAGE_FLUSH_TYPE_* bits of the region, 0 for none. */
int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote *mr, int *flush_type);

/*
 * Passes advice (enum ib_uverbs_advise_mr_advice) and flags (IBV_ADVISE_MR_FLAG_*) about part of the region to the
 * device. RPMA_E_INVAL: the part is not inside the region, or the device rejects the arguments. RPMA_E_NOSUPP.
 * RPMA_E_PROVIDER.
 */
int rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags);

/* Shared receive queue: one pool of receive buffers for many connections */

struct rpma_srq_cfg;
struct rpma_srq;

/* Both sizes are 20. RPMA_E_NOMEM. */
int rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr);
int rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr);

/* Receives the queue holds; the device may refuse the value in rpma_srq_new. */
int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size);
int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size);

/* Entries of the queue's own receive CQ; 0: none, receives complete on each connection's RCQ or main CQ. */
int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size);
int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size);

struct rpma_cq;

/* A NULL cfg means the defaults. The SRQ outlives every connection that uses it. RPMA_E_NOMEM, RPMA_E_PROVIDER. */
int rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr);
int rpma_srq_delete(struct rpma_srq **srq_ptr);

/* Posts a receive as rpma_recv does, for whichever connection gets the next message. */
int rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);

/* The SRQ's own receive CQ or NULL; owned by the SRQ. */
int rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr);

/* Connection configuration */

struct rpma_conn_cfg;

/* Time-out RPMA_DEFAULT_TIMEOUT_MS, cq, sq and rq size 10, rcq size 0, no shared channel, no SRQ. RPMA_E_NOMEM. */
int rpma_conn_cfg_new(struct rpma_conn_cfg **cfg_ptr);
int rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg_ptr);

/* Milliseconds, for address and route resolution each. RPMA_E_INVAL: negative. */
int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms);
int rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms);

/*
 * Queue sizes in entries; values above INT_MAX count as INT_MAX for CQs, and the device may refuse any of them when the
 * connection is made. cq: completions of the main CQ. rcq: of a separate receive CQ, 0 for none. sq: posted
 * operations whose completion (or that of a later one) is not collected. rq: posted receives.
 */
int rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg *cfg, uint32_t cq_size);
int rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg *cfg, uint32_t *cq_size);
int rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg *cfg, uint32_t rcq_size);
int rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg *cfg, uint32_t *rcq_size);
int rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg *cfg, uint32_t sq_size);
int rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg *cfg, uint32_t *sq_size);
int rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg *cfg, uint32_t rq_size);
int rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg *cfg, uint32_t *rq_size);

/* Whether both CQs report on one channel, waited for with rpma_conn_wait. Excludes an SRQ with its own receive CQ. */
int rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg *cfg, bool shared);
int rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg *cfg, bool *shared);

/* Receives come from srq, which cannot be NULL, and complete on its receive CQ if it has one. */
int rpma_conn_cfg_set_srq(struct rpma_conn_cfg *cfg, struct rpma_srq *srq);
int rpma_conn_cfg_get_srq(const struct rpma_conn_cfg *cfg, struct rpma_srq **srq_ptr);

/* Connection requests */

struct rpma_conn;
struct rpma_conn_req;

/* Bytes exchanged while connecting. On InfiniBand and RoCE they arrive padded with zeros to 56 or 196. */
struct rpma_conn_private_data {
    void *ptr;
    uint8_t len;
};

/*
 * Prepares an outgoing connection to addr (name or numeric address) and port (name or number), trying every resolved
 * address in turn. cfg NULL means the defaults. [B] on name, address and route resolution.
 * The environment variable RPMA_PEER_TIMEOUT_MS is read here, and for incoming requests by rpma_ep_next_conn_req: for
 * how many milliseconds, 1 to 3600000, operations are repeated to a peer that does not acknowledge anything. Without it
 * the device decides, and may never give up.
 * RPMA_E_INVAL: cfg shares the completion channel and has an SRQ with its own receive CQ, or RPMA_PEER_TIMEOUT_MS has
 * another value. RPMA_E_NOMEM. RPMA_E_PROVIDER.
 */
int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port, const struct rpma_conn_cfg *cfg,
        struct rpma_conn_req **req_ptr);

/* Drops an outgoing request, rejects an incoming one. [1] [B] RPMA_E_PROVIDER. */
int rpma_conn_req_delete(struct rpma_conn_req **req_ptr);

/*
 * Posts a receive before the connection exists, so that the first message finds a buffer. Arguments and errors
 * as rpma_recv, but dst cannot be NULL.
 */
int rpma_conn_req_recv(
        struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);

/* What the remote sent with its request, or {NULL, 0}. The bytes live until the request or its connection dies. */
int rpma_conn_req_get_private_data(const struct rpma_conn_req *req, struct rpma_conn_private_data *pdata);

/*
 * Turns a request into a connection and starts to establish it: wait for RPMA_CONN_ESTABLISHED. pdata may be NULL; it
 * is copied. A request that was not NULL on entry is consumed whatever the outcome, and an incoming one that fails is
 * rejected. [1]
 * RPMA_E_INVAL: conn_ptr NULL, or pdata with a NULL pointer or length 0. RPMA_E_NOMEM. RPMA_E_PROVIDER: for example
 * more private data than the transport carries (56 bytes in a request, 196 in an answer on InfiniBand and RoCE).
 */
int rpma_conn_req_connect(
        struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata, struct rpma_conn **conn_ptr);

/* Endpoint: a listening address */

struct rpma_ep;

/* Listens on addr and port, on the first resolved address that can be bound. [B] on name resolution. RPMA_E_NOMEM,
 * RPMA_E_PROVIDER.
 */
int rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_ep **ep_ptr);

/* Requests and connections made through the endpoint live on. [1] [B] RPMA_E_PROVIDER. */
int rpma_ep_shutdown(struct rpma_ep **ep_ptr);

/* Readable when a request waits. Owned by the endpoint. */
int rpma_ep_get_fd(const struct rpma_ep *ep, int *fd);

/*
 * Takes the next incoming request; cfg NULL means the defaults. A request that cannot be built is rejected. [B]
 * RPMA_E_NO_EVENT. RPMA_E_INVAL: also when an event other than a request arrived (it is dropped), or cfg contradicts
 * itself as in rpma_conn_req_new. RPMA_E_NOMEM. RPMA_E_PROVIDER.
 */
int rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr);

/* Connections */

enum rpma_conn_event {
    RPMA_CONN_UNDEFINED = -1, /* never reported; for initialising a variable */
    RPMA_CONN_ESTABLISHED,    /* operations may be posted */
    RPMA_CONN_CLOSED,         /* the other side disconnected, or the disconnection is complete; may come twice */
    RPMA_CONN_LOST,           /* the connection broke, the device went, or establishing failed */
    RPMA_CONN_REJECTED,       /* the other side refused, or nobody listens */
    RPMA_CONN_UNREACHABLE     /* no answer */
};

/* Static English text, never NULL. */
const char *rpma_utils_conn_event_2str(enum rpma_conn_event conn_event);

/* Readable when an event waits. Owned by the connection. */
int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd);

/*
 * Takes the next event. An accepted connection is always reported established before it is reported closed, unless this
 * side disconnected. [B] RPMA_E_NO_EVENT. RPMA_E_UNKNOWN: an event of another kind, dropped. RPMA_E_NOMEM.
 * RPMA_E_PROVIDER.
 */
int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event);

/* What the remote sent while connecting, from RPMA_CONN_ESTABLISHED on; otherwise {NULL, 0}. Lives with conn. */
int rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata);

/* Lets rpma_flush know what the remote peer supports. May be repeated. */
int rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg);

/* The local queue pair number, as in the qp_num of a work completion. */
int rpma_conn_get_qp_num(const struct rpma_conn *conn, uint32_t *qp_num);

/*
 * Whether rpma_flush is done natively on the connection, by this side's device and as RPMA_FLUSH_METHOD wants it. Says
 * nothing about the device of the other side, which has to have native flush then: see rpma_mr_get_native_flush_type.
 * Since 1.4.
 */
int rpma_conn_get_native_flush(const struct rpma_conn *conn, bool *native);

/* What the functions below have been told to do on a connection since it was made. */
struct rpma_conn_counters {
    uint64_t reads; /* rpma_read */
    uint64_t read_bytes;
    uint64_t writes; /* rpma_write, rpma_write_with_imm */
    uint64_t write_bytes;
    uint64_t atomic_writes;
    uint64_t flushes;
    uint64_t sends; /* rpma_send, rpma_send_with_imm */
    uint64_t send_bytes;
    uint64_t receives; /* rpma_recv; not those of the request, nor of an SRQ */
};

/*
 * *counters becomes what is counted: operations whose arguments are right, those that RPMA_F_MORE keeps and those that
 * the device refuses among them. Completions are not counted. Counting takes no lock: of two operations that two
 * threads post to one connection at the same moment one may be missed. Since 1.4. size is sizeof(struct
 * rpma_conn_counters), of which a later version may append members; those that the library does not have become 0.
 * RPMA_E_INVAL: also size 0.
 */
int rpma_conn_get_counters(const struct rpma_conn *conn, struct rpma_conn_counters *counters, size_t size);

/* The main CQ; the separate receive CQ or NULL. Owned by the connection. */
int rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr);
int rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr);

/* The descriptor of the shared completion channel, owned by the connection. RPMA_E_NOT_SHARED_CHNL. */
int rpma_conn_get_compl_fd(const struct rpma_conn *conn, int *fd);

/*
 * Waits on the shared completion channel, re-arms the CQ that fired and tells which one it is; is_rcq may be NULL. Then
 * collect with rpma_cq_get_wc until RPMA_E_NO_COMPLETION. flags is ignored. [B]
 * RPMA_E_NOT_SHARED_CHNL, RPMA_E_NO_COMPLETION. RPMA_E_UNKNOWN: an event of a foreign CQ. RPMA_E_PROVIDER.
 */
int rpma_conn_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq);

/* Starts to disconnect; outstanding operations complete with an error. May follow RPMA_CONN_CLOSED. RPMA_E_PROVIDER. */
int rpma_conn_disconnect(struct rpma_conn *conn);

/* Frees everything the connection owns, breaking it off if it is established. [1] [B] RPMA_E_PROVIDER. */
int rpma_conn_delete(struct rpma_conn **conn_ptr);

/*
 * Operations on an established connection
 *
 * Offsets and lengths are bytes and are checked against the local and the remote region. len is at most the smaller of
 * 2^31 and the device's largest message. op_context becomes wr_id of the completion. flags is
 * RPMA_F_COMPLETION_ALWAYS, or RPMA_F_COMPLETION_ON_ERROR for a completion on failure only; every sq_size-th
 * operation at least must be one with a completion. The order of operations is that of RDMA: a read or a flush is
 * performed after the writes posted before it.
 * With RPMA_F_MORE or-ed to the flags more operations follow at once: this one is kept, and posted together with the
 * next operation of the connection without it, or by rpma_conn_ring. A connection keeps up to 64, then it posts them.
 * Arguments are checked, and the 8 bytes of rpma_atomic_write taken, during the call; all else is as if it were posted
 * later. Whoever waits for a completion meanwhile waits for nothing. A call that posts what is kept and gives
 * RPMA_E_PROVIDER has dropped the operation that the device refused and all after it, its own among them; if there is a
 * native flush or atomic write among them, all. rpma_conn_disconnect posts what is kept, rpma_conn_delete drops it.
 * All: RPMA_E_INVAL: flags 0, or outside a region. RPMA_E_PROVIDER: the device refused, for example ENOMEM when the
 * queue is full.
 */
#define RPMA_F_COMPLETION_ON_ERROR (1 << 0)
#define RPMA_F_COMPLETION_ALWAYS (1 << 1 | RPMA_F_COMPLETION_ON_ERROR)
#define RPMA_F_MORE (1 << 2) /* since 1.4; ignored before it */

/* From remote src to local dst. Both NULL with offsets and len 0: an empty read. */
int rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset, const struct rpma_mr_remote *src,
        size_t src_offset, size_t len, int flags, const void *op_context);

/* From local src to remote dst. Both NULL with offsets and len 0: an empty write. */
int rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const struct rpma_mr_local *src,
        size_t src_offset, size_t len, int flags, const void *op_context);

/* As rpma_write; consumes a receive of the other side, whose completion carries imm in network byte order. */
int rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
        const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, uint32_t imm,
        const void *op_context);

#define RPMA_ATOMIC_WRITE_ALIGNMENT 8

/*
 * Writes the 8 bytes of src, which are consumed during the call, so that a remote reader sees all or none of them. It
 * takes effect after earlier flushes. The remote address must be a multiple of RPMA_ATOMIC_WRITE_ALIGNMENT:
 * RPMA_E_INVAL if the offset is not, a WARNING in the log if the region's base is not.
 */
int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const char src[8],
        int flags, const void *op_context);

enum rpma_flush_type {
    RPMA_FLUSH_TYPE_PERSISTENT, /* earlier writes survive a power failure of the remote */
    RPMA_FLUSH_TYPE_VISIBILITY  /* earlier writes are visible to every thread of the remote */
};

/*
 * Flushes a range of dst; its completion says that everything written there before has reached the type's level.
 * The completion's opcode is IBV_WC_FLUSH (8) on a device with native flush and IBV_WC_RDMA_READ otherwise.
 * RPMA_E_INVAL: also an unknown type. RPMA_E_NOSUPP: dst is not registered for the type, or the type is PERSISTENT and
 * no remote peer configuration with direct write to PMem was applied.
 */
int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
        enum rpma_flush_type type, int flags, const void *op_context);

/* Sends len bytes of src, or an empty message if src is NULL and offset and len are 0. */
int rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
        const void *op_context);

/* As rpma_send; the receive's completion carries imm in network byte order. */
int rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
        uint32_t imm, const void *op_context);

/*
 * Posts a buffer for one incoming message, which must not be longer, or for one immediate value (then dst may be NULL
 * with offset and len 0). Always completes.
 */
int rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);

/* Posts the operations that RPMA_F_MORE keeps, if any. Since 1.4. RPMA_E_PROVIDER. */
int rpma_conn_ring(struct rpma_conn *conn);

/* Completion queues, owned by a connection or an SRQ */

/* Readable when rpma_cq_wait (or rpma_conn_wait, for a shared channel) has something to take. */
int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd);

/*
 * Waits for a completion event and re-arms the CQ. Then collect with rpma_cq_get_wc until RPMA_E_NO_COMPLETION; an
 * event without completions is normal. [B] RPMA_E_SHARED_CHANNEL, RPMA_E_NO_COMPLETION. RPMA_E_PROVIDER: the CQ could
 * not be re-armed.
 */
int rpma_cq_wait(struct rpma_cq *cq);

/*
 * Collects up to num_entries completions into wc. num_entries_got may be NULL if num_entries is 1. Of an entry with a
 * status other than IBV_WC_SUCCESS only wr_id, status, qp_num and vendor_err mean anything.
 * RPMA_E_INVAL: num_entries below 1. RPMA_E_NO_COMPLETION. RPMA_E_PROVIDER. RPMA_E_UNKNOWN: the device returned more
 * than asked for.
 */
int rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got);

/* Logging */

enum rpma_log_level {
    RPMA_LOG_DISABLED = -1,
    RPMA_LOG_LEVEL_FATAL,
    RPMA_LOG_LEVEL_ERROR,
    RPMA_LOG_LEVEL_WARNING,
    RPMA_LOG_LEVEL_NOTICE,
    RPMA_LOG_LEVEL_INFO,
    RPMA_LOG_LEVEL_DEBUG
};

enum rpma_log_threshold {
    RPMA_LOG_THRESHOLD,     /* what reaches the log function at all; WARNING at first (DEBUG in a Debug build) */
    RPMA_LOG_THRESHOLD_AUX, /* what the default function prints to stderr; DISABLED at first (Debug: WARNING) */
    RPMA_LOG_THRESHOLD_MAX
};

/* Process-wide. RPMA_E_INVAL: unknown threshold or level. */
int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);
int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level);

/*
 * file_name may be NULL; line_no and function_name then mean nothing. message_format ends with a newline. Called from
 * any thread that uses the library, concurrently; must not unwind through it.
 */
typedef void rpma_log_function(enum rpma_log_level level, const char *file_name, const int line_no,
        const char *function_name, const char *message_format, ...);

/* The default function writes to syslog (facility LOG_LOCAL7), and to stderr below the auxiliary threshold. */
#define RPMA_LOG_USE_DEFAULT_FUNCTION (NULL)

/* Process-wide. */
int rpma_log_set_function(rpma_log_function *log_function);

#ifdef __cplusplus
}
#endif

#endif /* LIBRPMA_H */
