/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librpma: access to the memory of another machine over RDMA. librpma(7) is the introduction. The manual page of each
 * function describes its behavior, its errors and an example.
 *
 * Functions return 0 or a negative RPMA_E_* code. They check arguments first, and write outputs on success only. After
 * RPMA_E_PROVIDER, errno is that of the first provider call that failed.
 *
 * The caller owns what *_new, *_from_descriptor, *_reg, *_listen and *_connect create. The matching *_delete, *_dereg
 * or *_shutdown sets the handle to NULL, accepts a NULL handle, and frees the object even on error. A peer must outlive
 * its objects. A cfg is read only during the call.
 *
 * Threads may use an object concurrently, except in functions marked "Not thread-safe." and those that release it.
 * Functions marked "May block." return RPMA_E_NO_EVENT or RPMA_E_NO_COMPLETION instead if the descriptor has
 * O_NONBLOCK.
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

/* Version of this header, and of the loaded library: major << 16 | minor << 8 | patch. "Since 1.4." marks additions
 * after 1.3.0; a program without them runs on 1.3.0. */
#define LIBRPMA_VERSION_MAJOR 1
#define LIBRPMA_VERSION_MINOR 4
#define LIBRPMA_VERSION_PATCH 0
#define LIBRPMA_VERSION (LIBRPMA_VERSION_MAJOR << 16 | LIBRPMA_VERSION_MINOR << 8 | LIBRPMA_VERSION_PATCH)

/* Returns the version of the loaded library. Since 1.4. */
unsigned rpma_version(void);

/* Reserved; no function takes it. */
#define RPMA_W_WAIT_FOR_COMPLETION (1)

/* Error codes */

#define RPMA_E_UNKNOWN (-100000)         /* unclassified error */
#define RPMA_E_NOSUPP (-100001)          /* not supported by the device, the region or the remote peer */
#define RPMA_E_PROVIDER (-100002)        /* a call to libibverbs or librdmacm failed, see errno */
#define RPMA_E_NOMEM (-100003)           /* out of memory */
#define RPMA_E_INVAL (-100004)           /* an argument is NULL, out of range or contradicts another */
#define RPMA_E_NO_COMPLETION (-100005)   /* no completion available */
#define RPMA_E_NO_EVENT (-100006)        /* no connection event available */
#define RPMA_E_AGAIN (-100007)           /* temporary failure, try again */
#define RPMA_E_SHARED_CHANNEL (-100008)  /* the CQ's completion channel is shared: use rpma_conn_wait */
#define RPMA_E_NOT_SHARED_CHNL (-100009) /* the connection has no shared completion channel */

/* Returns a static English string for an error code, never NULL. */
const char *rpma_err_2str(int ret);

/* Devices */

/* Default timeout of address and route resolution, in milliseconds; see rpma_conn_cfg_set_timeout. */
#define RPMA_DEFAULT_TIMEOUT_MS 1000

enum rpma_util_ibv_context_type {
    RPMA_UTIL_IBV_CONTEXT_LOCAL, /* the device that owns a local address */
    RPMA_UTIL_IBV_CONTEXT_REMOTE /* the device through which a remote address is reached */
};

/* Finds the device for addr, a host name or a numeric address, of the kind in the environment variable RPMA_DEVICE.
 * librdmacm owns the context; do not close it. May block. */
int rpma_utils_get_ibv_context(
        const char *addr, enum rpma_util_ibv_context_type type, struct ibv_context **ibv_ctx_ptr);

enum rpma_device_kind {
    RPMA_DEVICE_ANY,     /* a device of the kernel if one owns or reaches the address, otherwise softrdma */
    RPMA_DEVICE_KERNEL,  /* RDMA hardware or SoftRoCE */
    RPMA_DEVICE_SOFTRDMA /* the device of softrdma(1) */
};

/* Like rpma_utils_get_ibv_context, but selects the kind of device. Do not pass a softrdma context to libibverbs. Since
 * 1.4. */
int rpma_utils_get_ibv_context_by_kind(const char *addr, enum rpma_util_ibv_context_type type,
        enum rpma_device_kind kind, struct ibv_context **ibv_ctx_ptr);

/* Stores RPMA_DEVICE_KERNEL or RPMA_DEVICE_SOFTRDMA. Since 1.4. */
int rpma_utils_ibv_context_get_kind(struct ibv_context *ibv_ctx, enum rpma_device_kind *kind);

/* Stores 1 if the device can register memory that cannot be pinned, by On-Demand Paging, otherwise 0. */
int rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable);

/* Peer configuration: capabilities that a peer sends to the other side */

struct rpma_peer_cfg;

/* Creates a configuration with direct write to PMem off. */
int rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr);
int rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr);

/* Declares whether data is persistent as soon as it is visible on this peer, which RPMA_FLUSH_TYPE_PERSISTENT requires.
 */
int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg *pcfg, bool supported);
int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg *pcfg, bool *supported);

/* Writes the descriptor, 1 byte, to desc. The program transfers it to the other side. */
int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc);
int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *desc_size);

/* Creates a configuration from a descriptor. Surplus bytes are ignored. */
int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size, struct rpma_peer_cfg **pcfg_ptr);

/* Peer: a protection domain on one device */

struct rpma_peer;

/* Creates a peer on a device from rpma_utils_get_ibv_context or librdmacm, which must outlive the peer.
 * RPMA_FLUSH_METHOD and RPMA_ATOMIC_WRITE_METHOD of the environment select native or emulated operations. */
int rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr);

/* Deletes the peer. RPMA_E_PROVIDER: its objects still exist, so the protection domain is not freed. */
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

/* Registers size bytes at ptr for a non-empty set of RPMA_MR_USAGE_*. The memory must stay mapped until rpma_mr_dereg.
 */
int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr_ptr);

/* Deregisters the region, which no posted operation may use. */
int rpma_mr_dereg(struct rpma_mr_local **mr_ptr);

/* Return the address and the size in bytes that were passed to rpma_mr_reg. */
int rpma_mr_get_ptr(const struct rpma_mr_local *mr, void **ptr);
int rpma_mr_get_size(const struct rpma_mr_local *mr, size_t *size);

/* Stores the RPMA_MR_USAGE_FLUSH_TYPE_* bits that a native flush by a remote peer reaches in the region, or 0. Since
 * 1.4. */
int rpma_mr_get_native_flush_type(const struct rpma_mr_local *mr, int *flush_type);

/* Writes the descriptor, 21 bytes, to desc. It grants access to the region: keep it confidential. */
int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc);
int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size);

/* Creates a handle for a region of the other side from its descriptor. Surplus bytes are ignored. */
int rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size, struct rpma_mr_remote **mr_ptr);

/* Deletes the handle. The caller may delete it as soon as the operations that use it are posted. */
int rpma_mr_remote_delete(struct rpma_mr_remote **mr_ptr);
int rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size);

/* Stores the RPMA_MR_USAGE_FLUSH_TYPE_* bits of the region, or 0. */
int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote *mr, int *flush_type);

/* Passes advice (enum ib_uverbs_advise_mr_advice) and IBV_ADVISE_MR_FLAG_* about part of the region to the device. */
int rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags);

/* Shared receive queue: one pool of receive buffers for many connections */

struct rpma_srq_cfg;
struct rpma_srq;

/* Creates a configuration with both sizes set to 20. */
int rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr);
int rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr);

/* Maximum number of posted receives. The device can reject the number in rpma_srq_new. */
int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size);
int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size);

/* Entries of the SRQ's own receive CQ. With 0, receives complete on each connection's RCQ or main CQ. */
int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size);
int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size);

struct rpma_cq;

/* Creates an SRQ, which must outlive its connections. A NULL cfg selects the defaults. */
int rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr);
int rpma_srq_delete(struct rpma_srq **srq_ptr);

/* Like rpma_recv, for the next message of any connection that uses the SRQ. */
int rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);

/* Returns the SRQ's own receive CQ or NULL. The SRQ owns it. */
int rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr);

/* Connection configuration */

struct rpma_conn_cfg;

/* Creates a configuration: timeout RPMA_DEFAULT_TIMEOUT_MS, cq, sq and rq size 10, rcq size 0, no shared channel, no
 * SRQ. */
int rpma_conn_cfg_new(struct rpma_conn_cfg **cfg_ptr);
int rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg_ptr);

/* Timeout of address resolution, and then of route resolution, in milliseconds, not negative. */
int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms);
int rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms);

/* Queue sizes in entries: main CQ, separate receive CQ (0 for none), send queue and receive queue. */
int rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg *cfg, uint32_t cq_size);
int rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg *cfg, uint32_t *cq_size);
int rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg *cfg, uint32_t rcq_size);
int rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg *cfg, uint32_t *rcq_size);
int rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg *cfg, uint32_t sq_size);
int rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg *cfg, uint32_t *sq_size);
int rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg *cfg, uint32_t rq_size);
int rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg *cfg, uint32_t *rq_size);

/* Sets whether both CQs share one channel for rpma_conn_wait. This excludes an SRQ with its own receive CQ. */
int rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg *cfg, bool shared);
int rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg *cfg, bool *shared);

/* Sets the SRQ from which connections take receives; not NULL. Receives complete on its receive CQ if it has one. */
int rpma_conn_cfg_set_srq(struct rpma_conn_cfg *cfg, struct rpma_srq *srq);
int rpma_conn_cfg_get_srq(const struct rpma_conn_cfg *cfg, struct rpma_srq **srq_ptr);

/* Connection requests */

struct rpma_conn;
struct rpma_conn_req;

/* Data exchanged during connection setup. InfiniBand and RoCE pad it with zeros to 56 or 196 bytes. */
struct rpma_conn_private_data {
    void *ptr;
    uint8_t len;
};

/* Prepares an outgoing connection to addr (name or numeric address) and port. A NULL cfg selects the defaults. The
 * environment variable RPMA_PEER_TIMEOUT_MS limits repetitions to a silent peer. May block. */
int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port, const struct rpma_conn_cfg *cfg,
        struct rpma_conn_req **req_ptr);

/* Deletes an outgoing request, or rejects an incoming one. Not thread-safe. May block. */
int rpma_conn_req_delete(struct rpma_conn_req **req_ptr);

/* Like rpma_recv, before the connection exists: for the first message. dst must not be NULL. */
int rpma_conn_req_recv(
        struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);

/* Returns the private data of the remote request, or {NULL, 0}. Valid until the request or its connection is deleted.
 */
int rpma_conn_req_get_private_data(const struct rpma_conn_req *req, struct rpma_conn_private_data *pdata);

/* Starts to establish the connection; wait for RPMA_CONN_ESTABLISHED. pdata may be NULL; it is copied. The request is
 * consumed even on error. Not thread-safe. */
int rpma_conn_req_connect(
        struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata, struct rpma_conn **conn_ptr);

/* Endpoint: a listening address */

struct rpma_ep;

/* Listens on port at the first resolved address of addr that can be bound. May block on name resolution. */
int rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_ep **ep_ptr);

/* Stops listening. Requests and connections of the endpoint stay valid. Not thread-safe. May block. */
int rpma_ep_shutdown(struct rpma_ep **ep_ptr);

/* Returns a descriptor that is readable when a request is pending. The endpoint owns it. */
int rpma_ep_get_fd(const struct rpma_ep *ep, int *fd);

/* Returns the next incoming request. A NULL cfg selects the defaults. On error the request is rejected. May block. */
int rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr);

/* Connections */

enum rpma_conn_event {
    RPMA_CONN_UNDEFINED = -1, /* never reported; initial value of a variable */
    RPMA_CONN_ESTABLISHED,    /* operations may be posted */
    RPMA_CONN_CLOSED,         /* the peer disconnected, or disconnecting is complete; can be reported twice */
    RPMA_CONN_LOST,           /* connection broken, device removed, or establishing failed */
    RPMA_CONN_REJECTED,       /* rejected by the peer, or no listener at the port */
    RPMA_CONN_UNREACHABLE     /* no response */
};

/* Returns a static English string for an event, never NULL. */
const char *rpma_utils_conn_event_2str(enum rpma_conn_event conn_event);

/* Returns a descriptor that is readable when an event is pending. The connection owns it. */
int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd);

/* Returns the next event. May block. */
int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event);

/* Returns the private data of the peer, {NULL, 0} before RPMA_CONN_ESTABLISHED. Valid until conn is deleted. */
int rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata);

/* Applies the capabilities of the remote peer, which rpma_flush checks. May be repeated. */
int rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg);

/* Returns the local queue pair number, which is the qp_num of work completions. */
int rpma_conn_get_qp_num(const struct rpma_conn *conn, uint32_t *qp_num);

/* Stores true if rpma_flush uses the native flush of the local device. The peer must support it, too. Since 1.4. */
int rpma_conn_get_native_flush(const struct rpma_conn *conn, bool *native);

/* Operations posted on a connection since its creation. */
struct rpma_conn_counters {
    uint64_t reads; /* rpma_read */
    uint64_t read_bytes;
    uint64_t writes; /* rpma_write, rpma_write_with_imm */
    uint64_t write_bytes;
    uint64_t atomic_writes;
    uint64_t flushes;
    uint64_t sends; /* rpma_send, rpma_send_with_imm */
    uint64_t send_bytes;
    uint64_t receives; /* rpma_recv; without those of the request or of an SRQ */
};

/* Stores the counters of posted operations. size is sizeof(struct rpma_conn_counters). Since 1.4. */
int rpma_conn_get_counters(const struct rpma_conn *conn, struct rpma_conn_counters *counters, size_t size);

/* Return the main CQ, and the separate receive CQ or NULL. The connection owns them. */
int rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr);
int rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr);

/* Returns the descriptor of the shared completion channel. The connection owns it. */
int rpma_conn_get_compl_fd(const struct rpma_conn *conn, int *fd);

/* Waits for an event on the shared completion channel, rearms its CQ and stores the CQ; is_rcq may be NULL. The caller
 * must then call rpma_cq_get_wc until RPMA_E_NO_COMPLETION. flags is ignored. May block. */
int rpma_conn_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq);

/* Starts to disconnect; outstanding operations complete with an error. May follow RPMA_CONN_CLOSED. */
int rpma_conn_disconnect(struct rpma_conn *conn);

/* Frees the connection and its objects; breaks an established one. Not thread-safe. May block. */
int rpma_conn_delete(struct rpma_conn **conn_ptr);

/*
 * Operations on an established connection. Offsets and lengths are in bytes. op_context becomes wr_id of the
 * completion. flags is RPMA_F_COMPLETION_ALWAYS, at least in one of sq_size consecutive operations, or
 * RPMA_F_COMPLETION_ON_ERROR. With RPMA_F_MORE, the operation is only queued: rpma_conn_submit(3) describes batches.
 */
#define RPMA_F_COMPLETION_ON_ERROR (1 << 0)
#define RPMA_F_COMPLETION_ALWAYS (1 << 1 | RPMA_F_COMPLETION_ON_ERROR)
#define RPMA_F_MORE (1 << 20) /* since 1.4; ignored by earlier versions */

/* Reads from remote src to local dst. If both are NULL and offsets and len are 0, the read is empty. */
int rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset, const struct rpma_mr_remote *src,
        size_t src_offset, size_t len, int flags, const void *op_context);

/* Writes from local src to remote dst. If both are NULL and offsets and len are 0, the write is empty. */
int rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const struct rpma_mr_local *src,
        size_t src_offset, size_t len, int flags, const void *op_context);

/* Like rpma_write, but consumes a receive of the peer. Its completion contains imm in network byte order. */
int rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
        const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, uint32_t imm,
        const void *op_context);

#define RPMA_ATOMIC_WRITE_ALIGNMENT 8

/* Writes 8 bytes atomically, after earlier flushes. src is copied. The remote address must be a multiple of 8. */
int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const char src[8],
        int flags, const void *op_context);

enum rpma_flush_type {
    RPMA_FLUSH_TYPE_PERSISTENT, /* earlier writes survive a power failure of the remote */
    RPMA_FLUSH_TYPE_VISIBILITY  /* earlier writes are visible to every thread of the remote */
};

/* Flushes a range of dst. The completion guarantees that earlier writes to the range have reached the level of the
 * type. */
int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
        enum rpma_flush_type type, int flags, const void *op_context);

/* Sends len bytes of src, or an empty message if src is NULL and offset and len are 0. */
int rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
        const void *op_context);

/* Like rpma_send. The completion of the receive contains imm in network byte order. */
int rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
        uint32_t imm, const void *op_context);

/* Posts a buffer for one message, which must not be longer; dst may be NULL with offset and len 0 for an immediate
 * value. */
int rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);

/* Posts the operations that RPMA_F_MORE queued. Since 1.4. */
int rpma_conn_submit(struct rpma_conn *conn);

/* Completion queues, owned by a connection or an SRQ */

/* Returns a descriptor that is readable when rpma_cq_wait, or rpma_conn_wait for a shared channel, does not block. */
int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd);

/* Waits for a completion event and rearms the CQ. The caller must then call rpma_cq_get_wc until RPMA_E_NO_COMPLETION.
 * May block. */
int rpma_cq_wait(struct rpma_cq *cq);

/* Reads up to num_entries completions into wc. num_entries_got may be NULL if num_entries is 1. If status is not
 * IBV_WC_SUCCESS, only wr_id, status, qp_num and vendor_err are valid. */
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
    RPMA_LOG_THRESHOLD,     /* level of the log function; default WARNING (Debug build: DEBUG) */
    RPMA_LOG_THRESHOLD_AUX, /* level of stderr, used by the default function; default DISABLED (Debug build: WARNING) */
    RPMA_LOG_THRESHOLD_MAX
};

/* Sets a threshold of the process. */
int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);
int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level);

/* Log function, called concurrently. If file_name is NULL, line_no and function_name are undefined. message_format ends
 * with a newline. */
typedef void rpma_log_function(enum rpma_log_level level, const char *file_name, const int line_no,
        const char *function_name, const char *message_format, ...);

/* The default function writes to syslog (facility LOG_LOCAL7), and to stderr up to the auxiliary threshold. */
#define RPMA_LOG_USE_DEFAULT_FUNCTION (NULL)

/* Sets the log function of the process. */
int rpma_log_set_function(rpma_log_function *log_function);

#ifdef __cplusplus
}
#endif

#endif /* LIBRPMA_H */
