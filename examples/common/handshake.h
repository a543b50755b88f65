// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_HANDSHAKE_H
#define EXAMPLES_HANDSHAKE_H 1

#include <stddef.h>
#include <stdint.h>

#include <librpma.h>

/*
 * Description of a side's memory, in the private data of the connection. 28 bytes, little-endian:
 *   0  u16  offset of the user data in the memory region
 *   2  u8   size of the memory region's descriptor
 *   3  u8   size of the peer configuration's descriptor, 0 without one
 *   4       both descriptors, then zeros
 */
enum {
    HANDSHAKE_SIZE = 28,
    HANDSHAKE_DESCRIPTORS_OFFSET = 4
};

struct handshake {
    uint8_t bytes[HANDSHAKE_SIZE];
};

/* Stores all but the descriptors at HANDSHAKE_DESCRIPTORS_OFFSET. Fails if data_offset exceeds 16 bits. Returns a
 * status. */
int handshake_begin(struct handshake *handshake, size_t data_offset, size_t mr_size, size_t pcfg_size);

/* Describes mr and pcfg, which may be NULL. Fails if data_offset exceeds 16 bits. Returns a status. */
int handshake_make(struct handshake *handshake, const struct rpma_mr_local *mr, size_t data_offset,
        const struct rpma_peer_cfg *pcfg);

/* Contents of the peer's handshake. The descriptors are in its private data. */
struct handshake_fields {
    size_t data_offset;
    const uint8_t *mr; /* descriptor of the memory region */
    size_t mr_size;
    const uint8_t *pcfg; /* descriptor of the peer configuration */
    size_t pcfg_size;    /* 0 without one */
};

/* Returns the handshake as private data, valid as long as *handshake. */
struct rpma_conn_private_data handshake_private_data(struct handshake *handshake);

/* Finds the parts of the peer's handshake. Returns a status. */
int handshake_read(const struct rpma_conn_private_data *pdata, struct handshake_fields *fields);

/* Fails if mr does not contain data_size bytes from data_offset. Returns a status. */
int handshake_check_range(const struct rpma_mr_remote *mr, size_t data_offset, size_t data_size);

/*
 * Parses the peer's handshake. *mr is set to its memory region, which must contain data_size bytes from data_offset.
 * *pcfg is set to its peer configuration, or NULL; a NULL pcfg ignores it. Returns a status. The caller must delete
 * objects that are not NULL.
 */
int handshake_parse(const struct rpma_conn_private_data *pdata, size_t data_size, struct rpma_mr_remote **mr,
        size_t *data_offset, struct rpma_peer_cfg **pcfg);

#endif /* EXAMPLES_HANDSHAKE_H */
