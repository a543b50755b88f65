// SPDX-License-Identifier: BSD-3-Clause
#include "flush_request.h"

#include "GPSPM_flush.pb-c.h"

size_t flush_request_write(const struct flush_request *request, void *message)
{
    GPSPMFlushRequest packed = GPSPM_FLUSH_REQUEST__INIT;
    packed.offset = request->offset;
    packed.length = request->length;
    packed.op_context = request->context;
    return gpspm_flush_request__pack(&packed, message);
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
