// SPDX-License-Identifier: BSD-3-Clause
#include "names.h"

#include <err.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "completion.h"
#include "connection.h"
#include "handshake.h"
#include "memory.h"
#include "region.h"
#include "service.h"
#include "status.h"
#include "text.h"

static const char read_name[] = "rpma_read";

enum {
    NAME_SIZE = 32, /* includes the terminating zeros */
    NAMES_TIMEOUT_S = 15
};

/* One slot for the name of each client. */
struct names {
    struct memory memory;
    struct rpma_mr_local *mr;
    int count; /* number of names read */
};

static const char *parse_name(const struct arguments *args)
{
    static const char *const names[] = {"Ada", "Barbara", "Claude", "Dennis", "Edsger", "Frances", "Grace", "Hedy",
            "Ivan", "John", "Ken", "Leslie", "Margaret"};
    return names[arguments_number(args, 0, "<seed>", 0) % (sizeof(names) / sizeof(names[0]))];
}

static int offer_name(
        const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg, const void *context)
{
    const char *name = context;
    struct memory memory = {0};
    struct rpma_mr_local *mr = NULL;
    struct rpma_conn *conn = NULL;
    struct handshake handshake;
    const struct rpma_conn_private_data pdata = handshake_private_data(&handshake);

    int status = memory_allocate(&memory, NAME_SIZE);
    if (status == STATUS_OK) {
        strcpy(memory.base, name);
        status = print_text("My name is", memory.base, NAME_SIZE);
    }
    if (status == STATUS_OK)
        status = register_memory(peer, &memory, RPMA_MR_USAGE_READ_SRC, &mr);
    if (status == STATUS_OK)
        status = handshake_make(&handshake, mr, 0, NULL);
    if (status == STATUS_OK)
        status = connect_to_server(args, peer, cfg, &pdata, &conn);
    if (status == STATUS_OK)
        status = wait_for_disconnect(args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    memory_close(&memory);
    return status;
}

static char *name_of(const struct client *client)
{
    const struct names *names = client->service->context;
    return names->memory.base + (ptrdiff_t)client->slot * NAME_SIZE;
}

/* With a shared completion channel, one descriptor serves all queues of the connection. */
static int watch_completions(struct client *client)
{
    struct rpma_cq *cq = NULL;
    int fd = -1;
    int status = STATUS_OK;

    const int ret = rpma_conn_get_compl_fd(client->conn, &fd);
    if (ret == RPMA_E_NOT_SHARED_CHNL) {
        status = check("rpma_conn_get_cq", rpma_conn_get_cq(client->conn, &cq));
        if (status == STATUS_OK)
            status = check("rpma_cq_get_fd", rpma_cq_get_fd(cq, &fd));
    } else {
        status = check("rpma_conn_get_compl_fd", ret);
    }
    return status ? status : event_loop_watch(&client->service->loop, &client->completions, fd);
}

static int read_name_of(struct client *client)
{
    const struct names *names = client->service->context;
    struct rpma_conn_private_data pdata = {0};
    struct rpma_mr_remote *src = NULL;
    size_t src_offset = 0;

    memset(name_of(client), 0, NAME_SIZE);
    int status = watch_completions(client);
    if (status == STATUS_OK)
        status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(client->conn, &pdata));
    if (status == STATUS_OK)
        status = handshake_parse(&pdata, NAME_SIZE, &src, &src_offset, NULL);
    if (status == STATUS_OK)
        status = check(read_name, rpma_read(client->conn, names->mr, (size_t)client->slot * NAME_SIZE, src, src_offset,
                                          NAME_SIZE, RPMA_F_COMPLETION_ALWAYS, read_name));

    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&src)); /* posted operations no longer need it */
    return status;
}

/* Takes the event of the readable descriptor, then polls. Returns RPMA_E_NO_COMPLETION without a completion. */
static int collect(struct rpma_conn *conn, struct ibv_wc *wc)
{
    struct rpma_cq *cq = NULL;
    int ret = rpma_conn_get_cq(conn, &cq);
    if (ret == 0)
        ret = rpma_cq_wait(cq);
    if (ret == RPMA_E_SHARED_CHANNEL)
        ret = rpma_conn_wait(conn, 0, &cq, NULL);
    return ret ? ret : rpma_cq_get_wc(cq, 1, wc, NULL);
}

static int print_name(struct client *client)
{
    struct names *names = client->service->context;
    struct ibv_wc wc;

    const int ret = collect(client->conn, &wc);
    if (ret == RPMA_E_NO_COMPLETION || client->is_done)
        return STATUS_OK;

    int status = check("collecting a completion", ret);
    if (status == STATUS_OK)
        status = check_completion(&wc);
    if (status == STATUS_OK)
        status = check_text("the name of a client", name_of(client), NAME_SIZE);
    if (status != STATUS_OK)
        return status;
    if (names->count++ == 0)
        puts("Today I have got in touch with:");
    printf("- %s\n", name_of(client));
    return service_dismiss(client);
}

static int collect_names(
        const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg, const void *context)
{
    (void)context;
    static const struct service_handlers handlers = {.established = read_name_of, .completed = print_name};
    struct names names = {0};
    struct service service = {.args = args,
            .peer = peer,
            .cfg = cfg,
            .handlers = &handlers,
            .context = &names,
            .loop = {.epoll_fd = -1},
            .listen_s = args->timeout_s};

    int status = service_open(&service);
    if (status == STATUS_OK)
        status = memory_allocate(&names.memory, (size_t)MAX_CLIENTS * NAME_SIZE);
    if (status == STATUS_OK)
        status = register_memory(peer, &names.memory, RPMA_MR_USAGE_READ_DST, &names.mr);
    if (status == STATUS_OK)
        status = service_run(&service);

    status |= service_close(&service);
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&names.mr));
    memory_close(&names.memory);
    return status;
}

int names_client(int argc, char **argv)
{
    static const struct program program = {
            .purpose = "Lets the server read this client's name.",
            .operands = "<seed>",
            .operands_help = "  <seed>           number that chooses this client's name\n",
            .min_operands = 1,
            .max_operands = 1,
            .timeout_s = 30,
    };
    const struct arguments args = arguments_parse(argc, argv, &program);
    return variant_run(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, NULL, offer_name, parse_name(&args));
}

int names_server(int argc, char **argv, configure_conn *configure)
{
    static const struct program program = {
            .purpose = "Reads the names of many clients at a time, until no other has come for --timeout seconds.",
            .operands = "",
            .operands_help = "",
            .timeout_s = NAMES_TIMEOUT_S,
            .retry_s = RETRY_NOT_OFFERED,
            .has_many_clients = true,
    };
    const struct arguments args = arguments_parse(argc, argv, &program);
    return variant_run(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, configure, collect_names, NULL);
}
