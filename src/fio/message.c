// SPDX-License-Identifier: BSD-3-Clause
#include "message.h"

#include "GPSPM_flush.pb-c.h"

size_t response_write(uint64_t context, void *message)
{
    GPSPMFlushResponse packed = GPSPM_FLUSH_RESPONSE__INIT;
    packed.op_context = context;
    return gpspm_flush_response__pack(&packed, message);
}

bool response_read(const void *message, size_t length, uint64_t *context)
{
    GPSPMFlushResponse *unpacked = gpspm_flush_response__unpack(NULL, length, message);
    if (!unpacked)
        return false;
    *context = unpacked->op_context;
    gpspm_flush_response__free_unpacked(unpacked, NULL);
    return true;
}
