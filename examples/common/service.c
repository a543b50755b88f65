// SPDX-License-Identifier: BSD-3-Clause
#include "service.h"

#include <err.h>
#include <errno.h>
#include <stddef.h>

#include "connection.h"
#include "status.h"
#include "wait.h"

static void remove_client(struct client *client)
{
    struct service *service = client->service;

    event_loop_unwatch(&service->loop, &client->events);
    if (client->completions.fd >= 0)
        event_loop_unwatch(&service->loop, &client->completions);
    service->status |= check("rpma_conn_delete", rpma_conn_delete(&client->conn));
    --service->connected_count;
}

/*
 * A client can disconnect before this side gets the event of its establishment. Older releases of librpma cannot
 * disconnect in that state, so the handler of the event does.
 */
int service_dismiss(struct client *client)
{
    client->is_done = true;
    return client->is_established ? check("rpma_conn_disconnect", rpma_conn_disconnect(client->conn)) : STATUS_OK;
}

/* The event of the disconnection frees the slot. Without a disconnection there is no event. */
void service_give_up(struct client *client)
{
    client->service->status |= STATUS_FAILED;
    if (service_dismiss(client) != STATUS_OK)
        remove_client(client);
}

/* Older releases report a call that would block as an error of the provider. */
static bool is_no_event(int ret)
{
    return ret == RPMA_E_NO_EVENT || (ret == RPMA_E_PROVIDER && errno == EAGAIN);
}

static int handle_event(void *context)
{
    struct client *client = context;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

    const int ret = rpma_conn_next_event(client->conn, &event);
    if (is_no_event(ret))
        return STATUS_OK;
    if (check("rpma_conn_next_event", ret) != STATUS_OK) {
        client->service->status |= STATUS_FAILED;
        remove_client(client);
        return STATUS_OK;
    }

    if (event == RPMA_CONN_ESTABLISHED) {
        client->is_established = true;
        const int status = client->service->handlers->established(client);
        if (status != STATUS_OK || (client->is_done && service_dismiss(client) != STATUS_OK))
            service_give_up(client);
        return STATUS_OK;
    }
    if (!client->is_done) {
        warnx("client #%d disconnected before it was done: connection event %s", client->slot,
                rpma_utils_conn_event_2str(event));
        client->service->status |= STATUS_FAILED;
    }
    remove_client(client);
    return STATUS_OK;
}

static int handle_completion(void *context)
{
    struct client *client = context;
    if (client->service->handlers->completed(client) != STATUS_OK)
        service_give_up(client);
    return STATUS_OK;
}

static struct client *find_free_slot(struct service *service)
{
    for (int i = 0; i < MAX_CLIENTS; ++i) {
        if (!service->clients[i].conn)
            return &service->clients[i];
    }
    return NULL;
}

static int watch_client(struct client *client)
{
    int fd = -1;
    const int status = check("rpma_conn_get_event_fd", rpma_conn_get_event_fd(client->conn, &fd));
    return status ? status : event_loop_watch(&client->service->loop, &client->events, fd);
}

/* Does not wait until the connection is established, because that would block the other clients. */
static void accept_client(struct service *service, struct client *client, struct rpma_conn_req **req)
{
    const int slot = (int)(client - service->clients);
    *client = (struct client){.service = service,
            .slot = slot,
            .events = {.handle = handle_event, .context = client},
            .completions = {.handle = handle_completion, .context = client, .fd = -1}};

    int status = service->handlers->requested ? service->handlers->requested(client, *req) : STATUS_OK;
    if (status == STATUS_OK)
        status = check("rpma_conn_req_connect", rpma_conn_req_connect(req, NULL, &client->conn));
    if (status == STATUS_OK)
        status = watch_client(client);
    if (status != STATUS_OK) {
        service->status |= status;
        (void)rpma_conn_req_delete(req);       /* the earlier error is reported */
        (void)rpma_conn_delete(&client->conn); /* frees the slot */
        return;
    }
    ++service->connected_count;
    ++service->accepted_count;
    service->listen_until_ms = service->listen_s == 0 ? NO_DEADLINE : now_ms() + (int64_t)service->listen_s * 1000;
}

static int handle_request(void *context)
{
    struct service *service = context;
    struct rpma_conn_req *req = NULL;

    const int ret = rpma_ep_next_conn_req(service->ep, service->cfg, &req);
    if (is_no_event(ret))
        return STATUS_OK;
    if (check("rpma_ep_next_conn_req", ret) != STATUS_OK) {
        service->status |= STATUS_FAILED; /* rejects this request; others may succeed */
        return STATUS_OK;
    }

    struct client *client = find_free_slot(service);
    if (client) {
        accept_client(service, client, &req);
        return STATUS_OK;
    }
    warnx("all %d places are taken: another client is rejected", MAX_CLIENTS);
    return check("rpma_conn_req_delete", rpma_conn_req_delete(&req));
}

int service_open(struct service *service)
{
    service->requests = (struct watch){.handle = handle_request, .context = service};
    return event_loop_open(&service->loop);
}

static int start_listening(struct service *service)
{
    int fd = -1;
    service->listen_until_ms = service->listen_s == 0 ? NO_DEADLINE : now_ms() + (int64_t)service->listen_s * 1000;

    int status = listen_for_clients(service->args, service->peer, &service->ep);
    if (status == STATUS_OK)
        status = check("rpma_ep_get_fd", rpma_ep_get_fd(service->ep, &fd));
    return status ? status : event_loop_watch(&service->loop, &service->requests, fd);
}

static int stop_listening(struct service *service)
{
    if (service->accepted_count == 0) {
        warnx("timeout: no client within %d s (is one running? See --timeout)", service->listen_s);
        return STATUS_FAILED;
    }
    event_loop_unwatch(&service->loop, &service->requests);
    return check("rpma_ep_shutdown", rpma_ep_shutdown(&service->ep));
}

static bool has_enough_clients(const struct service *service)
{
    const int wanted = service->args->client_count;
    return now_ms() >= service->listen_until_ms || (wanted > 0 && service->accepted_count >= wanted);
}

/* Handles one event or the deadline. */
static int serve(struct service *service)
{
    if (service->ep && has_enough_clients(service))
        return stop_listening(service);

    const int timeout_s = service->args->timeout_s;
    const int64_t silence_ms = timeout_s == 0 ? NO_DEADLINE : now_ms() + (int64_t)timeout_s * 1000;
    bool is_silent = false;
    const int status = event_loop_step(&service->loop, service->ep ? service->listen_until_ms : silence_ms, &is_silent);
    if (status == STATUS_OK && is_silent && !service->ep) {
        warnx("timeout: no response of %d client(s) within %d s (are they still running? See --timeout)",
                service->connected_count, timeout_s);
        return STATUS_FAILED;
    }
    return status;
}

int service_run(struct service *service)
{
    int status = start_listening(service);
    while (status == STATUS_OK && (service->ep || service->connected_count > 0))
        status = serve(service);
    return status | service->status;
}

int service_close(struct service *service)
{
    int status = STATUS_OK;
    for (int i = 0; i < MAX_CLIENTS; ++i)
        status |= check("rpma_conn_delete", rpma_conn_delete(&service->clients[i].conn));
    status |= check("rpma_ep_shutdown", rpma_ep_shutdown(&service->ep));
    event_loop_close(&service->loop);
    return status;
}
