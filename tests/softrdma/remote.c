/* SPDX-License-Identifier: BSD-3-Clause */
#include "remote.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
    page_size = 4096,
    message_size = 64,
};

void send_greeting(int out, const struct greeting *greeting)
{
    assert_int_equal(write(out, greeting, sizeof(*greeting)), sizeof(*greeting));
}

struct child start_child(void (*act)(int in))
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const struct child child = {.pid = fork(), .out = ends[1]};
    assert_true(child.pid >= 0);
    if (child.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        act(ends[0]);
        exit(0);
    }
    close(ends[0]);
    return child;
}

void accept_child(struct pair *p, int out, const struct options *options)
{
    memset(p, 0, sizeof(*p));
    open_listener(p, "127.0.0.1");
    send_greeting(out, &(struct greeting){.port = rdma_get_src_port(p->listener)});
    accept_request(p, take_request(p), options);
    assert_int_equal(expect_event(p->listen_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
}

static const char *address_of(const char *address)
{
    return address != NULL ? address : "127.0.0.1";
}

static void serve(const struct server_plan *plan, uint8_t *page, size_t size, int out)
{
    struct pair p = {0};
    if (plan->prepare != NULL)
        plan->prepare();
    open_listener(&p, address_of(plan->address));
    send_greeting(out, &(struct greeting){.port = rdma_get_src_port(p.listener)});
    struct rdma_cm_event *request = take_request(&p);
    if (plan->shared_receives > 0) {
        p.server.pd = ibv_alloc_pd(p.server.id->verbs);
        p.srq = create_srq(p.server.pd, plan->shared_receives);
    }
    accept_request(&p, request, &(struct options){.size = size, .server_memory = page, .server_access = plan->access});
    for (unsigned i = 0; i < plan->receives; ++i)
        assert_int_equal(post_receive(&p.server, i + 1, i * message_size, message_size), 0);
    const size_t shared_size = plan->shared_size != 0 ? plan->shared_size : message_size;
    for (unsigned i = 0; i < plan->shared_receives; ++i)
        assert_int_equal(post_shared_receive(p.srq, &p.server, i + 1, i * shared_size, shared_size), 0);
    assert_int_equal(expect_event(p.listen_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    send_greeting(out, &(struct greeting){.addr = (uintptr_t)page, .rkey = p.server.mr->rkey});
    if (plan->act != NULL)
        plan->act(&p);
    for (;;)
        pause();
}

void start_server(struct remote *r, const struct server_plan *plan, uint8_t *page)
{
    memset(r, 0, sizeof(*r));
    int ends[2];
    r->address = plan->address;
    r->page = page;
    r->send_ops = plan->send_ops;
    r->ack_timeout = no_ack_timeout;
    r->size = plan->size != 0 ? plan->size : page_size;
    if (page == NULL)
        r->page = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(r->page, MAP_FAILED);
    assert_int_equal(pipe(ends), 0);
    r->pid = fork();
    assert_true(r->pid >= 0);
    if (r->pid == 0) {
        close(ends[0]);
        serve(plan, r->page, r->size, ends[1]);
    }
    close(ends[1]);
    r->in = ends[0];
}

void call_server(struct remote *r, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = port};
    assert_int_equal(inet_pton(AF_INET, address_of(r->address), &to.sin_addr), 1);
    struct side *c = &r->pair.client;
    resolve_side(c, NULL, &to);
    create_queues(c, NULL, &(struct options){.size = r->size, .send_ops = r->send_ops}, false);
    if (r->ack_timeout != no_ack_timeout)
        assert_int_equal(rdma_set_option(c->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &r->ack_timeout, 1), 0);
    connect_client(&r->pair, NULL);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_ESTABLISHED), 0);
}

void meet_server(struct remote *r)
{
    struct greeting greeting;
    assert_int_equal(read(r->in, &greeting, sizeof(greeting)), sizeof(greeting));
    call_server(r, greeting.port);
    assert_int_equal(read(r->in, &greeting, sizeof(greeting)), sizeof(greeting));
    r->mr.rkey = greeting.rkey;
    r->target = (struct side){.memory = (uint8_t *)(uintptr_t)greeting.addr, .mr = &r->mr};
}

void suspend_server(struct remote *r)
{
    int status = 0;
    assert_int_equal(kill(r->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(r->pid, &status, WUNTRACED), r->pid);
}

void stop_server(struct remote *r)
{
    kill_child(r->pid);
    close(r->in);
    munmap(r->page, r->size);
    close_pair(&r->pair);
}

void kill_child(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, __WALL), child);
}

void in_own_process(void (*test)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        test();
        exit(0); /* a failed assertion exits with another code */
    }
    assert_int_equal(exit_code_of(pid), 0);
}

void require_root(void)
{
    if (geteuid() != 0)
        skip_because("only root can become another user");
}
