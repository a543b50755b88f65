/* SPDX-License-Identifier: BSD-3-Clause */
/* One side of eight connections is stopped for a moment, or killed, in the middle of all kinds of traffic. Each message
 * must arrive once, in order, on its own connection. If a side is killed, the connections of the other side end. */
#include "remote.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    connections = 8,
    sharing_connections = 4,          /* number of connections that share a receive queue */
    receives = 8,                     /* receives of each connection */
    max_length = 2048,                /* maximum size of a message */
    size = 64 * 1024,                 /* memory size of each side */
    notes_at = receives * max_length, /* offset of WRITEs with immediate data in the server's memory */
    notes = 16,                       /* more than the server may have unprocessed */
    plain_at = 56 * 1024,             /* offset of other WRITEs */
    word_at = 60 * 1024,
    answer_at = 8192, /* offset of responses in the client's memory */
    enough = 400,     /* requests of each connection if no side is killed */
    messages = enough / 5 * 2,
    side_limit_s = 60,
};

struct message {
    uint32_t connection;
    uint32_t length;
    uint64_t number;
    uint8_t rest[];
};

struct address {
    uint64_t memory;
    uint32_t rkey;
};

static const int access_rights = everything | IBV_ACCESS_REMOTE_ATOMIC;

static size_t note_of(uint64_t number)
{
    return notes_at + number / 2 % notes * max_length;
}

static void write_message(uint8_t *to, uint32_t connection, uint64_t number)
{
    struct message *m = (struct message *)(void *)to;
    m->connection = connection;
    m->number = number;
    m->length = (uint32_t)(sizeof(*m) + (number * 97 + connection * 31) % (max_length - sizeof(*m)));
    memset(m->rest, (int)(number + connection), m->length - sizeof(*m));
}

static void check_message(const uint8_t *at, uint32_t connection, uint64_t number, uint32_t length)
{
    const struct message *m = (const struct message *)(const void *)at;
    assert_int_equal(m->connection, connection);
    assert_int_equal(m->number, number);
    assert_int_equal(m->length, length);
    for (uint32_t i = 0; i < length - sizeof(*m); ++i)
        assert_int_equal(m->rest[i], (uint8_t)(number + connection));
}

struct server {
    struct pair listening;
    struct ibv_pd *pd;
    struct ibv_srq *srq;
    struct side *buffers; /* buffers of the shared receives */
    struct side sides[connections];
    uint64_t expected[connections];
};

static void post_receive_of(struct server *s, unsigned connection, uint64_t place)
{
    if (connection >= sharing_connections) {
        assert_int_equal(post_receive(&s->sides[connection], place, place * max_length, max_length), 0);
        return;
    }
    assert_int_equal(post_shared_receive(s->srq, s->buffers, place, place * max_length, max_length), 0);
}

static void accept_one(struct server *s, unsigned connection, int write_fd)
{
    struct side *side = &s->sides[connection];
    struct rdma_cm_event *request = take_request(&s->listening);
    side->id = s->listening.server.id;
    if (s->pd == NULL)
        s->pd = ibv_alloc_pd(side->id->verbs);
    side->pd = s->pd;
    if (s->srq == NULL) {
        struct ibv_srq_init_attr attr = {.attr = {.max_wr = receives, .max_sge = 1}};
        s->srq = ibv_create_srq(s->pd, &attr);
        assert_non_null(s->srq);
    }
    create_queues(side, connection < sharing_connections ? s->srq : NULL,
            &(struct options){.size = size, .server_access = access_rights}, true);
    if (s->buffers == NULL)
        s->buffers = side;
    for (uint64_t i = 0; (connection == 0 || connection >= sharing_connections) && i < receives; ++i)
        post_receive_of(s, connection, i);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    struct rdma_conn_param param = {.responder_resources = 16, .initiator_depth = 16, .rnr_retry_count = 7};
    assert_int_equal(rdma_accept(side->id, &param), 0);
    assert_int_equal(expect_event(s->listening.listen_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    const struct address a = {.memory = (uintptr_t)side->memory, .rkey = side->mr->rkey};
    if (write(write_fd, &a, sizeof(a)) != sizeof(a))
        _exit(1);
}

/* A WRITE with immediate data contains a number, too. */
static void take_in(struct server *s, unsigned connection, const struct ibv_wc *wc)
{
    const uint64_t number = s->expected[connection]++;
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        assert_int_equal(ntohl(wc->imm_data), (uint32_t)number);
        check_message(s->sides[connection].memory + note_of(number), connection, number, wc->byte_len);
    } else {
        const struct side *from = connection < sharing_connections ? s->buffers : &s->sides[connection];
        check_message(from->memory + wc->wr_id * max_length, connection, number, wc->byte_len);
    }
    post_receive_of(s, connection, wc->wr_id);
}

/* Serves until the client has finished, or has died. */
static void serve(int write_fd, bool may_end)
{
    struct server s = {0};
    struct ibv_wc wc;
    alarm(side_limit_s);
    open_listener(&s.listening, "127.0.0.1");
    const uint16_t port = rdma_get_src_port(s.listening.listener);
    if (write(write_fd, &port, sizeof(port)) != sizeof(port))
        _exit(1);
    for (unsigned i = 0; i < connections; ++i)
        accept_one(&s, i, write_fd);
    struct pollfd event = {.fd = s.listening.listen_channel->fd, .events = POLLIN};
    for (bool over = false; !over;) {
        over = poll(&event, 1, 0) == 1; /* deliveries that arrived before are polled once more */
        for (unsigned i = 0; i < connections; ++i) {
            while (ibv_poll_cq(s.sides[i].cq, 1, &wc) == 1) {
                if (wc.status == IBV_WC_SUCCESS)
                    take_in(&s, i, &wc);
                else
                    over = true;
            }
        }
    }
    for (unsigned i = 0; i < connections && !may_end; ++i)
        assert_int_equal(s.expected[i], messages);
    exit(0);
}

/* Posts the next request of a connection. READs and atomics return data of the preceding WRITE. */
static void post_next(struct side *own, const struct side *target, unsigned connection, uint64_t step, uint64_t number)
{
    uint8_t *m = own->memory;
    enum ibv_wr_opcode kind = IBV_WR_SEND;
    size_t length = 0;
    struct ibv_send_wr wr = {0}, *bad = NULL;
    switch (step % 5) {
    case 0:
        write_message(m, connection, number);
        break;
    case 1:
        kind = IBV_WR_RDMA_WRITE_WITH_IMM;
        write_message(m, connection, number);
        break;
    case 2:
        kind = IBV_WR_RDMA_READ;
        length = sizeof(struct message);
        break;
    case 3:
        kind = IBV_WR_ATOMIC_FETCH_AND_ADD;
        length = 8;
        break;
    default:
        kind = IBV_WR_RDMA_WRITE;
        write_message(m, connection, UINT64_MAX - step);
        break;
    }
    if (length == 0)
        length = ((struct message *)(void *)m)->length;
    const bool reads = kind == IBV_WR_RDMA_READ || kind == IBV_WR_ATOMIC_FETCH_AND_ADD;
    struct ibv_sge sge = {
            .addr = (uintptr_t)m + (reads ? answer_at : 0), .length = (uint32_t)length, .lkey = own->mr->lkey};
    wr = (struct ibv_send_wr){.wr_id = step,
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = kind,
            .send_flags = IBV_SEND_SIGNALED,
            .imm_data = htonl((uint32_t)number)};
    if (kind == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)target->memory + word_at;
        wr.wr.atomic.rkey = target->mr->rkey;
        wr.wr.atomic.compare_add = 3;
    } else {
        const size_t to = kind == IBV_WR_RDMA_WRITE ? plain_at : note_of(reads ? number - 1 : number);
        wr.wr.rdma.remote_addr = (uintptr_t)target->memory + to;
        wr.wr.rdma.rkey = target->mr->rkey;
    }
    assert_int_equal(ibv_post_send(own->qp, &wr, &bad), 0);
}

static void check_answer(const struct side *own, uint64_t step)
{
    uint64_t word;
    memcpy(&word, own->memory + answer_at, sizeof(word));
    if (step % 5 == 2) /* reads the message that was written last */
        assert_memory_equal(own->memory + answer_at, own->memory, sizeof(struct message));
    if (step % 5 == 3)
        assert_int_equal(word, step / 5 * 3);
}

static void run_client(int from, int write_fd, bool may_end)
{
    struct remote r[connections];
    uint64_t step[connections] = {0}, number[connections] = {0};
    uint16_t port = 0;
    alarm(side_limit_s);
    memset(r, 0, sizeof(r));
    if (read(from, &port, sizeof(port)) != sizeof(port))
        exit(may_end ? 0 : 1);
    for (unsigned i = 0; i < connections; ++i) {
        struct address a;
        r[i].size = size;
        call_server(&r[i], port);
        if (read(from, &a, sizeof(a)) != sizeof(a))
            exit(may_end ? 0 : 1);
        r[i].mr.rkey = a.rkey;
        r[i].target = (struct side){.memory = (uint8_t *)(uintptr_t)a.memory, .mr = &r[i].mr};
        post_next(&r[i].pair.client, &r[i].target, i, 0, 0);
    }
    if (write(write_fd, "", 1) != 1)
        exit(1);
    for (unsigned left = connections; left > 0;) {
        for (unsigned i = 0; i < connections; ++i) {
            struct side *own = &r[i].pair.client;
            struct ibv_wc wc;
            if (ibv_poll_cq(own->cq, 1, &wc) == 0)
                continue;
            if (wc.status != IBV_WC_SUCCESS)
                exit(may_end ? 0 : 1);
            check_answer(own, step[i]);
            number[i] += step[i] % 5 < 2;
            if (++step[i] < enough || may_end)
                post_next(own, &r[i].target, i, step[i], number[i]);
            else
                --left;
        }
    }
    exit(0);
}

static pid_t start_side(bool server, const int *to_client, const int *to_parent, bool may_end)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(to_client[server ? 0 : 1]); /* notifies a side that waits for the dead peer */
    if (server)
        serve(to_client[1], may_end);
    else
        run_client(to_client[0], to_parent[1], may_end);
    _exit(1);
}

static void one_round(bool kills, bool the_server)
{
    int to_client[2], to_parent[2];
    char connected = 0;
    assert_int_equal(pipe(to_client), 0);
    assert_int_equal(pipe(to_parent), 0);
    const pid_t server = start_side(true, to_client, to_parent, kills);
    const pid_t client = start_side(false, to_client, to_parent, kills);
    close(to_client[0]);
    close(to_client[1]);
    close(to_parent[1]);
    assert_int_equal(read(to_parent[0], &connected, 1), 1);
    close(to_parent[0]);
    const pid_t chosen = the_server ? server : client, other = the_server ? client : server;
    for (unsigned i = 0; i < (kills ? 1 : 4); ++i) {
        usleep((unsigned)(rand() % 10000));
        kill(chosen, kills ? SIGKILL : SIGSTOP);
        usleep((unsigned)(rand() % 20000));
        kill(chosen, SIGCONT);
    }
    if (kills)
        assert_int_equal(waitpid(chosen, NULL, 0), chosen);
    else
        assert_int_equal(exit_code_of(chosen), 0);
    assert_int_equal(exit_code_of(other), 0);
}

static void rounds(bool kills)
{
    const unsigned count = number_from("TEST_KILL_ROUNDS", 6);
    const unsigned start = number_from("TEST_SEED", (unsigned)getpid());
    print_message("seed %u, %u rounds\n", start, count);
    srand(start);
    const unsigned own = entries_in("/proc/self/fd", ""), shared = entries_in("/dev/shm", "softrdma");
    for (unsigned i = 0; i < count; ++i)
        one_round(kills, i % 2 == 0);
    assert_int_equal(entries_in("/proc/self/fd", ""), own);
    assert_int_equal(entries_in("/dev/shm", "softrdma"), shared);
}

DEFINE_TEST(a_side_that_is_stopped_for_a_moment_loses_nothing, NULL, NULL)
{
    rounds(false);
}

DEFINE_TEST(a_side_that_is_killed_ends_the_other, NULL, NULL)
{
    rounds(true);
}
