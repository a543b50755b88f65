/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Additions to the interface under the symbol version LIBRPMA_1.4. This file is included after released_1_0.h, with the
 * same macros.
 */
VALUE(LIBRPMA_VERSION, LIBRPMA_VERSION_MAJOR * 0x10000 + LIBRPMA_VERSION_MINOR * 0x100 + LIBRPMA_VERSION_PATCH);
VALUE(RPMA_F_MORE, 0x100000);
VALUE(RPMA_DEVICE_ANY, 0);
VALUE(RPMA_DEVICE_KERNEL, 1);
VALUE(RPMA_DEVICE_SOFTRDMA, 2);

#ifdef __cplusplus
extern "C" {
#endif

unsigned rpma_version(void);

int rpma_utils_get_ibv_context_by_kind(const char *addr, enum rpma_util_ibv_context_type type,
        enum rpma_device_kind kind, struct ibv_context **ibv_ctx_ptr);
int rpma_utils_ibv_context_get_kind(struct ibv_context *ibv_ctx, enum rpma_device_kind *kind);

int rpma_conn_submit(struct rpma_conn *conn);
int rpma_conn_get_native_flush(const struct rpma_conn *conn, bool *native);
int rpma_mr_get_native_flush_type(const struct rpma_mr_local *mr, int *flush_type);

/* Members may be appended, because the program passes the size that it was compiled with. */
int rpma_conn_get_counters(const struct rpma_conn *conn, struct rpma_conn_counters *counters, size_t size);

#ifdef __cplusplus
}
#endif
