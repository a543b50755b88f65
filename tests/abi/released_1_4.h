/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What came to the interface under the symbol version LIBRPMA_1.4. It is included after released_1_0.h and read as that
 * is.
 */
VALUE(LIBRPMA_VERSION, LIBRPMA_VERSION_MAJOR * 0x10000 + LIBRPMA_VERSION_MINOR * 0x100 + LIBRPMA_VERSION_PATCH);
VALUE(RPMA_F_MORE, 4);

#ifdef __cplusplus
extern "C" {
#endif

unsigned rpma_version(void);

int rpma_conn_ring(struct rpma_conn *conn);

#ifdef __cplusplus
}
#endif
