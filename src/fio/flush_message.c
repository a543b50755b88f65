// SPDX-License-Identifier: BSD-3-Clause
#include "flush_message.h"

#include "GPSPM_flush.pb-c.h"

size_t flush_request_write(const struct flush_request *request, void *message)
{
    GPSPMFlushRequest packed = GPSPM_FLUSH_REQUEST__INIT;
    packed.offset = request->offset;
    packed.length = request->length;
    packed.op_context = request->context;
    return gpspm_flush_request__pack(&packed, message);
}

size_t flush_response_write(uint64_t context, void *message)
{
    GPSPMFlushResponse packed = GPSPM_FLUSH_RESPONSE__INIT;
    packed.op_context = context;
    return gpspm_flush_response__pack(&packed, message);
}

bool flush_request_read(const void *message, size_t length, struct flush_request *request)
{
    GPSPMFlushRequest *unpacked = gpspm_flush_request__unpack(NULL, length, message);
    if (!unpacked)
        return false;
    *request = (struct flush_request){
            .offset = unpacked->offset, .length = unpacked->length, .context = unpacked->op_context};
    gpspm_flush_request__free_unpacked(unpacked, NULL);
    return true;
}

bool flush_response_read(const void *message, size_t length, uint64_t *context)
{
    GPSPMFlushResponse *unpacked = gpspm_flush_response__unpack(NULL, length, message);
    if (!unpacked)
        return false;
    *context = unpacked->op_context;
    gpspm_flush_response__free_unpacked(unpacked, NULL);
    return true;
}
