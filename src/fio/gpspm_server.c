// SPDX-License-Identifier: BSD-3-Clause
/* General Purpose Persistency Method: the server persists written data on request of the client. */
#include <errno.h>
#include <inttypes.h>

#include "responses.h"
#include "engine.h"
#include "flush_request.h"
#include "report.h"
#include "server.h"

static int act(struct thread_data *td, struct server *server, const void *message, size_t length, uint64_t *context)
{
    const struct memory *memory = &server->memory;
    struct flush_request request;
    if (!flush_request_read(message, length, &request))
        return -report(td, EPROTO, "the client sent a malformed flush request of %zu bytes", length);
    if (request.offset == 0 && request.length == 0)
        return 1;
    if (request.offset > memory->size || request.length > memory->size - request.offset)
        return -report(td, EPROTO,
                "flush request out of bounds: %" PRIu64 " bytes at offset %" PRIu64 ", workspace size %zu",
                request.length, request.offset, memory->size);
    memory_persist(memory, request.offset, request.length);
    *context = request.context;
    return 0;
}

static int init(struct thread_data *td)
{
    static const struct server_kind kind = {
            .max_messages = responses_max_messages,
            .configure = responses_configure,
            .on_connect = responses_on_connect,
            .serve = responses_serve,
            .act = act,
            .end = responses_end,
    };
    return server_init(td, &kind);
}

struct ioengine_ops ioengine = {
        .name = "librpma_gpspm_server",
        .init = init,
        SERVER_FUNCTIONS,
};
