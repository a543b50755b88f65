// SPDX-License-Identifier: BSD-3-Clause
#include "handshake.h"

#include <err.h>

#include "status.h"

enum {
    MAX_DESCRIPTORS_SIZE = HANDSHAKE_SIZE - HANDSHAKE_DESCRIPTORS_OFFSET
};

int handshake_begin(struct handshake *handshake, size_t data_offset, size_t mr_size, size_t pcfg_size)
{
    if (mr_size + pcfg_size > MAX_DESCRIPTORS_SIZE) {
        warnx("descriptors of %zu bytes exceed the private data, at most %d bytes", mr_size + pcfg_size,
                MAX_DESCRIPTORS_SIZE);
        return STATUS_FAILED;
    }
    if (data_offset > UINT16_MAX) {
        warnx("data at offset %zu: the maximum offset is %d (use a smaller <pmem-offset>)", data_offset, UINT16_MAX);
        return STATUS_FAILED;
    }

    *handshake = (struct handshake){.bytes = {(uint8_t)(data_offset & 0xff), (uint8_t)(data_offset >> 8),
                                            (uint8_t)mr_size, (uint8_t)pcfg_size}};
    return STATUS_OK;
}

int handshake_make(struct handshake *handshake, const struct rpma_mr_local *mr, size_t data_offset,
        const struct rpma_peer_cfg *pcfg)
{
    uint8_t *descriptors = handshake->bytes + HANDSHAKE_DESCRIPTORS_OFFSET;
    size_t mr_size = 0;
    size_t pcfg_size = 0;
    int status = check("rpma_mr_get_descriptor_size", rpma_mr_get_descriptor_size(mr, &mr_size));
    if (status == STATUS_OK && pcfg)
        status = check("rpma_peer_cfg_get_descriptor_size", rpma_peer_cfg_get_descriptor_size(pcfg, &pcfg_size));
    if (status == STATUS_OK)
        status = handshake_begin(handshake, data_offset, mr_size, pcfg_size);
    if (status == STATUS_OK)
        status = check("rpma_mr_get_descriptor", rpma_mr_get_descriptor(mr, descriptors));
    if (status == STATUS_OK && pcfg)
        status = check("rpma_peer_cfg_get_descriptor", rpma_peer_cfg_get_descriptor(pcfg, descriptors + mr_size));
    return status;
}

struct rpma_conn_private_data handshake_private_data(struct handshake *handshake)
{
    return (struct rpma_conn_private_data){.ptr = handshake->bytes, .len = HANDSHAKE_SIZE};
}

int handshake_check_range(const struct rpma_mr_remote *mr, size_t data_offset, size_t data_size)
{
    size_t mr_size = 0;
    const int status = check("rpma_mr_remote_get_size", rpma_mr_remote_get_size(mr, &mr_size));
    if (status == STATUS_OK && (data_offset > mr_size || data_size > mr_size - data_offset)) {
        warnx("the peer offers %zu bytes of memory, too small for %zu bytes at offset %zu", mr_size, data_size,
                data_offset);
        return STATUS_FAILED;
    }
    return status;
}

int handshake_read(const struct rpma_conn_private_data *pdata, struct handshake_fields *fields)
{
    /* Private data may be longer than sent, because InfiniBand and RoCE pad it with zeros. */
    const uint8_t *bytes = pdata->ptr;
    if (!bytes || pdata->len < HANDSHAKE_SIZE) {
        warnx("the peer sent %u bytes of private data instead of %d (does it run another example?)", pdata->len,
                HANDSHAKE_SIZE);
        return STATUS_FAILED;
    }

    const size_t mr_size = bytes[2];
    const size_t pcfg_size = bytes[3];
    if (mr_size == 0 || mr_size + pcfg_size > MAX_DESCRIPTORS_SIZE) {
        warnx("the peer sent no descriptor of its memory (does it run another example?)");
        return STATUS_FAILED;
    }

    const uint8_t *mr = bytes + HANDSHAKE_DESCRIPTORS_OFFSET;
    *fields = (struct handshake_fields){.data_offset = (size_t)bytes[0] | (size_t)bytes[1] << 8,
            .mr = mr,
            .mr_size = mr_size,
            .pcfg = mr + mr_size,
            .pcfg_size = pcfg_size};
    return STATUS_OK;
}

int handshake_parse(const struct rpma_conn_private_data *pdata, size_t data_size, struct rpma_mr_remote **mr,
        size_t *data_offset, struct rpma_peer_cfg **pcfg)
{
    struct handshake_fields fields = {0};
    int status = handshake_read(pdata, &fields);
    if (status == STATUS_OK)
        status = check("rpma_mr_remote_from_descriptor", rpma_mr_remote_from_descriptor(fields.mr, fields.mr_size, mr));
    if (status == STATUS_OK)
        status = handshake_check_range(*mr, fields.data_offset, data_size);
    if (status == STATUS_OK && pcfg && fields.pcfg_size > 0)
        status = check(
                "rpma_peer_cfg_from_descriptor", rpma_peer_cfg_from_descriptor(fields.pcfg, fields.pcfg_size, pcfg));
    if (status == STATUS_OK)
        *data_offset = fields.data_offset;
    return status;
}
