// SPDX-License-Identifier: BSD-3-Clause
/* Appliance Persistency Method: this side opens its memory, and its CPU does nothing until the client goes. */
#include "engine.h"
#include "server.h"

static unsigned int max_messages(const struct thread_data *td)
{
    (void)td;
    return 0;
}

static int serve(struct thread_data *td, struct server *server)
{
    (void)td;
    const int ret = session_watch(&server->session);
    return ret ? ret : server->session.is_closed;
}

static int init(struct thread_data *td)
{
    static const struct server_kind kind = {
            .max_messages = max_messages,
            .serve = serve,
    };
    return server_init(td, &kind);
}

struct ioengine_ops ioengine = {
        .name = "librpma_apm_server",
        .init = init,
        SERVER_FUNCTIONS,
};
