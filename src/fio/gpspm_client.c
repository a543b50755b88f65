// SPDX-License-Identifier: BSD-3-Clause
/* General Purpose Persistency Method: the client writes, and requests by message that the server persists the data. */
#include <errno.h>

#include "client.h"
#include "engine.h"
#include "flush_request.h"
#include "report.h"
#include "requests.h"

static int begin(struct thread_data *td, struct client *client)
{
    const struct endpoint *server = &client->session.endpoint;
    if (client->max_messages == 0)
        return -report(td, EPROTO,
                "%s port %s: the server accepts no messages: librpma_apm_server, not librpma_gpspm_server",
                server->address, server->port);
    const int ret = requests_begin(td, client);
    if (ret == 0 && client->is_pmem && client->has_direct_write && td->subjob_number == 0)
        print_line(td, "the server declares direct write to PMem: messages not needed (use librpma_apm_client and "
                       "librpma_apm_server)");
    return ret;
}

static size_t write_request(
        const struct client *client, uint64_t offset, uint64_t length, uint64_t number, void *message)
{
    (void)client;
    const struct flush_request request = {.offset = offset, .length = length, .context = number};
    return flush_request_write(&request, message);
}

static int init(struct thread_data *td)
{
    static const struct client_kind kind = {
            .configure = requests_configure,
            .begin = begin,
            .flush = requests_flush,
            .write_request = write_request,
            .take_message = requests_take_message,
            .shut_down = requests_shut_down,
            .end = requests_end,
    };
    return client_init(td, &kind);
}

struct ioengine_ops ioengine = {
        .name = "librpma_gpspm_client",
        .init = init,
        CLIENT_FUNCTIONS,
};
