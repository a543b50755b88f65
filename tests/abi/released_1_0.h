/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interface released under the symbol version LIBRPMA_1.0. This file never changes. Included after librpma.h, it
 * compiles as C and C++ only if every value, layout and prototype is unchanged. The tests read the list of exported
 * functions from this file.
 */
#include <assert.h>

#define VALUE(name, value) static_assert((name) == (value), #name)

VALUE(LIBRPMA_H, 1);
VALUE(RPMA_W_WAIT_FOR_COMPLETION, 1);
VALUE(RPMA_E_UNKNOWN, -100000);
VALUE(RPMA_E_NOSUPP, -100001);
VALUE(RPMA_E_PROVIDER, -100002);
VALUE(RPMA_E_NOMEM, -100003);
VALUE(RPMA_E_INVAL, -100004);
VALUE(RPMA_E_NO_COMPLETION, -100005);
VALUE(RPMA_E_NO_EVENT, -100006);
VALUE(RPMA_E_AGAIN, -100007);
VALUE(RPMA_E_SHARED_CHANNEL, -100008);
VALUE(RPMA_E_NOT_SHARED_CHNL, -100009);

VALUE(RPMA_DEFAULT_TIMEOUT_MS, 1000);
VALUE(RPMA_ATOMIC_WRITE_ALIGNMENT, 8);
VALUE(RPMA_F_COMPLETION_ON_ERROR, 1);
VALUE(RPMA_F_COMPLETION_ALWAYS, 3);

VALUE(RPMA_MR_USAGE_READ_SRC, 0x1);
VALUE(RPMA_MR_USAGE_READ_DST, 0x2);
VALUE(RPMA_MR_USAGE_WRITE_SRC, 0x4);
VALUE(RPMA_MR_USAGE_WRITE_DST, 0x8);
VALUE(RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, 0x10);
VALUE(RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, 0x20);
VALUE(RPMA_MR_USAGE_SEND, 0x40);
VALUE(RPMA_MR_USAGE_RECV, 0x80);

VALUE(RPMA_UTIL_IBV_CONTEXT_LOCAL, 0);
VALUE(RPMA_UTIL_IBV_CONTEXT_REMOTE, 1);

VALUE(RPMA_CONN_UNDEFINED, -1);
VALUE(RPMA_CONN_ESTABLISHED, 0);
VALUE(RPMA_CONN_CLOSED, 1);
VALUE(RPMA_CONN_LOST, 2);
VALUE(RPMA_CONN_REJECTED, 3);
VALUE(RPMA_CONN_UNREACHABLE, 4);

VALUE(RPMA_FLUSH_TYPE_PERSISTENT, 0);
VALUE(RPMA_FLUSH_TYPE_VISIBILITY, 1);

VALUE(RPMA_LOG_DISABLED, -1);
VALUE(RPMA_LOG_LEVEL_FATAL, 0);
VALUE(RPMA_LOG_LEVEL_ERROR, 1);
VALUE(RPMA_LOG_LEVEL_WARNING, 2);
VALUE(RPMA_LOG_LEVEL_NOTICE, 3);
VALUE(RPMA_LOG_LEVEL_INFO, 4);
VALUE(RPMA_LOG_LEVEL_DEBUG, 5);

VALUE(RPMA_LOG_THRESHOLD, 0);
VALUE(RPMA_LOG_THRESHOLD_AUX, 1);
VALUE(RPMA_LOG_THRESHOLD_MAX, 2);

/* In C++, only a null pointer constant converts. */
static inline rpma_log_function *default_log_function(void)
{
    return RPMA_LOG_USE_DEFAULT_FUNCTION;
}

VALUE(sizeof(enum rpma_util_ibv_context_type), 4);
VALUE(sizeof(enum rpma_conn_event), 4);
VALUE(sizeof(enum rpma_flush_type), 4);
VALUE(sizeof(enum rpma_log_level), 4);
VALUE(sizeof(enum rpma_log_threshold), 4);

VALUE(offsetof(struct rpma_conn_private_data, ptr), 0);
VALUE(offsetof(struct rpma_conn_private_data, len), sizeof(void *));
VALUE(sizeof(((struct rpma_conn_private_data *)0)->len), 1);
VALUE(sizeof(struct rpma_conn_private_data), 2 * sizeof(void *));

#ifdef __cplusplus
extern "C" {
#endif

typedef void rpma_log_function(enum rpma_log_level level, const char *file_name, const int line_no,
        const char *function_name, const char *message_format, ...);

int rpma_utils_get_ibv_context(
        const char *addr, enum rpma_util_ibv_context_type type, struct ibv_context **ibv_ctx_ptr);
int rpma_utils_ibv_context_is_odp_capable(struct ibv_context *ibv_ctx, int *is_odp_capable);

int rpma_peer_cfg_new(struct rpma_peer_cfg **pcfg_ptr);
int rpma_peer_cfg_delete(struct rpma_peer_cfg **pcfg_ptr);
int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg *pcfg, bool supported);
int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg *pcfg, bool *supported);
int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg *pcfg, void *desc);
int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg *pcfg, size_t *desc_size);
int rpma_peer_cfg_from_descriptor(const void *desc, size_t desc_size, struct rpma_peer_cfg **pcfg_ptr);

int rpma_peer_new(struct ibv_context *ibv_ctx, struct rpma_peer **peer_ptr);
int rpma_peer_delete(struct rpma_peer **peer_ptr);

int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr_ptr);
int rpma_mr_dereg(struct rpma_mr_local **mr_ptr);
int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc);
int rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size, struct rpma_mr_remote **mr_ptr);
int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size);
int rpma_mr_get_ptr(const struct rpma_mr_local *mr, void **ptr);
int rpma_mr_get_size(const struct rpma_mr_local *mr, size_t *size);
int rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size);
int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote *mr, int *flush_type);
int rpma_mr_remote_delete(struct rpma_mr_remote **mr_ptr);
int rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags);

int rpma_conn_cfg_new(struct rpma_conn_cfg **cfg_ptr);
int rpma_conn_cfg_delete(struct rpma_conn_cfg **cfg_ptr);
int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg *cfg, int timeout_ms);
int rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg *cfg, int *timeout_ms);
int rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg *cfg, uint32_t cq_size);
int rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg *cfg, uint32_t *cq_size);
int rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg *cfg, uint32_t rcq_size);
int rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg *cfg, uint32_t *rcq_size);
int rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg *cfg, uint32_t sq_size);
int rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg *cfg, uint32_t *sq_size);
int rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg *cfg, uint32_t rq_size);
int rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg *cfg, uint32_t *rq_size);
int rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg *cfg, bool shared);
int rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg *cfg, bool *shared);
int rpma_conn_cfg_set_srq(struct rpma_conn_cfg *cfg, struct rpma_srq *srq);
int rpma_conn_cfg_get_srq(const struct rpma_conn_cfg *cfg, struct rpma_srq **srq_ptr);

int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd);
int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event);
const char *rpma_utils_conn_event_2str(enum rpma_conn_event conn_event);
int rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata);
int rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg);
int rpma_conn_get_qp_num(const struct rpma_conn *conn, uint32_t *qp_num);
int rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr);
int rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr);
int rpma_conn_disconnect(struct rpma_conn *conn);
int rpma_conn_delete(struct rpma_conn **conn_ptr);

int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port, const struct rpma_conn_cfg *cfg,
        struct rpma_conn_req **req_ptr);
int rpma_conn_req_delete(struct rpma_conn_req **req_ptr);
int rpma_conn_req_connect(
        struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata, struct rpma_conn **conn_ptr);
int rpma_conn_get_compl_fd(const struct rpma_conn *conn, int *fd);
int rpma_conn_wait(struct rpma_conn *conn, int flags, struct rpma_cq **cq, bool *is_rcq);
int rpma_conn_req_recv(
        struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);
int rpma_conn_req_get_private_data(const struct rpma_conn_req *req, struct rpma_conn_private_data *pdata);

int rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_ep **ep_ptr);
int rpma_ep_shutdown(struct rpma_ep **ep_ptr);
int rpma_ep_get_fd(const struct rpma_ep *ep, int *fd);
int rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr);

int rpma_srq_cfg_new(struct rpma_srq_cfg **cfg_ptr);
int rpma_srq_cfg_delete(struct rpma_srq_cfg **cfg_ptr);
int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg *cfg, uint32_t rq_size);
int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg *cfg, uint32_t *rq_size);
int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg *cfg, uint32_t rcq_size);
int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg *cfg, uint32_t *rcq_size);
int rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr);
int rpma_srq_delete(struct rpma_srq **srq_ptr);
int rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);
int rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr);

int rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset, const struct rpma_mr_remote *src,
        size_t src_offset, size_t len, int flags, const void *op_context);
int rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const struct rpma_mr_local *src,
        size_t src_offset, size_t len, int flags, const void *op_context);
int rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
        const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, uint32_t imm,
        const void *op_context);
int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const char src[8],
        int flags, const void *op_context);
int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
        enum rpma_flush_type type, int flags, const void *op_context);
int rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
        const void *op_context);
int rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
        uint32_t imm, const void *op_context);
int rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context);

int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd);
int rpma_cq_wait(struct rpma_cq *cq);
int rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got);

const char *rpma_err_2str(int ret);

int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);
int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level *level);
int rpma_log_set_function(rpma_log_function *log_function);

#ifdef __cplusplus
}
#endif
