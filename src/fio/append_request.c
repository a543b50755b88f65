// SPDX-License-Identifier: BSD-3-Clause
#include "append_request.h"

#include "AOF_update.pb-c.h"

size_t append_request_write(const struct append_request *request, void *message)
{
    AOFUpdateRequest packed = AOF_UPDATE_REQUEST__INIT;
    packed.append_offset = request->offset;
    packed.append_length = request->length;
    packed.pointer_offset = request->pointer_offset;
    packed.op_context = request->context;
    return aof_update_request__pack(&packed, message);
}

bool append_request_read(const void *message, size_t length, struct append_request *request)
{
    AOFUpdateRequest *unpacked = aof_update_request__unpack(NULL, length, message);
    if (!unpacked)
        return false;
    *request = (struct append_request){.offset = unpacked->append_offset,
            .length = unpacked->append_length,
            .pointer_offset = unpacked->pointer_offset,
            .context = unpacked->op_context};
    aof_update_request__free_unpacked(unpacked, NULL);
    return true;
}
