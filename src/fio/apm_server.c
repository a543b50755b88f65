// SPDX-License-Identifier: BSD-3-Clause
/* Appliance Persistency Method: the server registers its memory and idles until the client disconnects. */
#include "engine.h"
#include "server.h"

static int init(struct thread_data *td)
{
    static const struct server_kind kind = {
            .serve = server_watch,
    };
    return server_init(td, &kind);
}

struct ioengine_ops ioengine = {
        .name = "librpma_apm_server",
        .init = init,
        SERVER_FUNCTIONS,
};
