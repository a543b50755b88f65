// SPDX-License-Identifier: BSD-3-Clause
/* Append-only file. mode=hw: the server registers its memory and idles until the client disconnects. mode=sw: on each
 * request of the client, the server persists the appended data and then the pointer to its end. */
#include <errno.h>
#include <inttypes.h>

#include "responses.h"
#include "append_request.h"
#include "engine.h"
#include "report.h"
#include "server.h"

static int check_request(struct thread_data *td, const struct memory *memory, const struct append_request *request)
{
    const uint64_t capacity = memory->size - POINTER_SIZE;
    if (request->pointer_offset != capacity)
        return -report(td, EPROTO, "append request with the pointer at offset %" PRIu64 ": it must be %" PRIu64,
                request->pointer_offset, capacity);
    if (request->offset > capacity || request->length > capacity - request->offset)
        return -report(td, EPROTO,
                "append request out of bounds: %" PRIu64 " bytes at offset %" PRIu64 ", file size %" PRIu64,
                request->length, request->offset, capacity);
    return 0;
}

static int act(struct thread_data *td, struct server *server, const void *message, size_t length, uint64_t *context)
{
    const struct memory *memory = &server->memory;
    const struct append_request final_message = {0};
    struct append_request request;
    if (!append_request_read(message, length, &request))
        return -report(td, EPROTO, "the client sent a malformed append request of %zu bytes", length);
    if (memcmp(&request, &final_message, sizeof(request)) == 0)
        return 1;
    const int ret = check_request(td, memory, &request);
    if (ret)
        return ret;
    memory_persist(memory, request.offset, request.length);
    void *pointer = memory->base + request.pointer_offset;
    __atomic_store_n((uint64_t *)pointer, request.offset + request.length, __ATOMIC_RELEASE);
    memory_persist(memory, request.pointer_offset, POINTER_SIZE);
    *context = request.context;
    return 0;
}

static int init(struct thread_data *td)
{
    static const struct server_kind hw = {
            .serve = server_watch,
    };
    static const struct server_kind sw = {
            .max_messages = responses_max_messages,
            .configure = responses_configure,
            .on_connect = responses_on_connect,
            .serve = responses_serve,
            .act = act,
            .end = responses_end,
    };
    const struct engine_options *options = td->eo;
    if (td->o.size % POINTER_SIZE != 0)
        return report(
                td, EINVAL, "size=%llu is not a multiple of %d, the size of the pointer", td->o.size, POINTER_SIZE);
    return server_init(td, options->mode == AOF_MODE_HW ? &hw : &sw);
}

struct ioengine_ops ioengine = {
        .name = "librpma_aof_server",
        .init = init,
        SERVER_FUNCTIONS,
};
