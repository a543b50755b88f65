/* SPDX-License-Identifier: BSD-3-Clause */
/* The path between processes on one host that cannot access each other: each passes descriptors of its shared
 * memory. */
#include "remote.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

enum {
    page_size = 4096,
    unprivileged_id = 65534,
};

/* If the client fails, its server must exit, too. */
static void end_with_client(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static const struct server_plan sleeps = {.prepare = end_with_client, .receives = 4};

/* Only root may access a process that has changed its user; other processes of that user must not. */
static void drop_rights(void)
{
    if (setresgid(unprivileged_id, unprivileged_id, unprivileged_id) != 0 ||
            setresuid(unprivileged_id, unprivileged_id, unprivileged_id) != 0)
        _exit(1);
}

static bool completes_within(struct ibv_cq *cq, unsigned ms, struct ibv_wc *wc)
{
    int count = 0;
    for (unsigned i = 0; i < ms && (count = ibv_poll_cq(cq, 1, wc)) == 0; ++i)
        usleep(1000);
    assert_in_range(count, 0, 1);
    return count == 1;
}

/* A request can access the memory of a stopped process after its file has been passed, which the first request
 * triggers. */
static bool reaches_stopped(struct remote *r, enum ibv_wr_opcode opcode, size_t length)
{
    struct ibv_wc wc;
    bool reached = false;
    for (unsigned tries = 0; tries < 50 && !reached; ++tries) {
        suspend_server(r);
        assert_int_equal(post(&r->pair.client, opcode, 1, 0, length, &r->target, 8, 0), 0);
        reached = completes_within(r->pair.client.cq, 50, &wc);
        assert_int_equal(kill(r->pid, SIGCONT), 0);
        assert_true(reached || completes_within(r->pair.client.cq, time_limit_ms, &wc));
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
    }
    return reached;
}

TEST_IN_OWN_PROCESS_OF_ROOT(a_file_descriptor_is_passed)
{
    int fd;
    uint8_t *page = map_file(page_size, MAP_SHARED, &fd);
    drop_rights();
    MEET_SERVER(r, &sleeps, page);
    fill(r.pair.client.memory, 1000, 3);
    assert_true(reaches_stopped(&r, IBV_WR_RDMA_WRITE, 1000));
    assert_memory_equal(page + 8, r.pair.client.memory, 1000);
    memset(r.pair.client.memory, 0, 1000);
    assert_true(reaches_stopped(&r, IBV_WR_RDMA_READ, 1000));
    assert_memory_equal(page + 8, r.pair.client.memory, 1000);
    close(fd);
}

TEST_IN_OWN_PROCESS_OF_ROOT(a_small_message_needs_no_process)
{
    drop_rights();
    MEET_SERVER(r, &sleeps, NULL);
    suspend_server(&r);
    post_and_expect(&r.pair.client, IBV_WR_SEND, 1, 0, 64, NULL, 0, IBV_WC_SUCCESS);
}

TEST_IN_OWN_PROCESS_OF_ROOT(private_memory_is_left_to_its_owner)
{
    drop_rights();
    MEET_SERVER(r, &sleeps, NULL);
    fill(r.pair.client.memory, page_size, 3);
    post_and_expect(&r.pair.client, IBV_WR_RDMA_WRITE, 1, 0, page_size, &r.target, 0, IBV_WC_SUCCESS);
    assert_memory_equal(r.page, r.pair.client.memory, page_size);
    assert_false(reaches_stopped(&r, IBV_WR_RDMA_WRITE, 8));
}

/* The server publishes the current registration in its first page. The client clears the key when it has used it. */
struct board {
    _Atomic uint32_t key;
    _Atomic uint32_t rounds;
    uint8_t *_Atomic target;
};

static struct board *board_at(void *page)
{
    return page;
}

/* The mapping of the initiator belongs to a registration: its mark is in that file, and only there. */
static void register_two_files_in_turns(struct pair *p)
{
    int fd;
    uint8_t *files[] = {map_file(page_size, MAP_SHARED, &fd), p->server.memory + page_size};
    struct board *board = board_at(p->server.memory);
    for (unsigned round = 0;; ++round) {
        uint8_t *here = files[round % 2];
        struct ibv_mr *mr = (ibv_reg_mr)(p->server.pd, here, page_size, everything);
        board->target = here;
        board->key = mr->rkey;
        while (board->key != 0)
            usleep(100);
        assert_int_equal(here[0], 0xaa);
        here[0] = 0;
        assert_int_equal(files[0][0] + files[1][0], 0);
        ibv_dereg_mr(mr);
        board->rounds += 1;
    }
}

TEST_IN_OWN_PROCESS_OF_ROOT(passed_files_belong_to_a_registration)
{
    int fd;
    uint8_t *pages = map_file(2 * page_size, MAP_SHARED, &fd);
    struct board *board = board_at(pages);
    drop_rights();
    MEET_SERVER(r,
            &(struct server_plan){
                    .prepare = end_with_client, .size = 2 * page_size, .act = register_two_files_in_turns},
            pages);
    memset(r.pair.client.memory, 0xaa, page_size);
    for (unsigned round = 0; round < 40; ++round) {
        AWAIT(board->key != 0);
        struct ibv_mr mr = {.rkey = board->key};
        struct side target = {.memory = board->target, .mr = &mr};
        for (unsigned i = 0; i < 4; ++i) {
            post_and_expect(&r.pair.client, IBV_WR_RDMA_WRITE, 1, 0, 8, &target, 0, IBV_WC_SUCCESS);
            usleep(500);
        }
        board->key = 0;
        AWAIT(board->rounds == round + 1);
    }
    close(fd);
}

/* Waits until no more descriptors are open than before. Then, a connection may still have been about to close. */
static void expect_descriptors(unsigned before)
{
    AWAIT(entries_in("/proc/self/fd", "") <= before);
}

struct fd_server {
    struct sockaddr_un address;
    socklen_t size;
};

static bool is_own_socket(unsigned long inode)
{
    struct stat file;
    for (int fd = 0; fd < 1024; ++fd)
        if (fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode) && file.st_ino == inode)
            return true;
    return false;
}

static struct fd_server own_server(const char *kind)
{
    char line[512];
    char name[128];
    unsigned long inode = 0;
    struct fd_server server = {.address.sun_family = AF_UNIX};
    FILE *table = fopen("/proc/net/unix", "re");
    assert_non_null(table);
    while (server.size == 0 && fgets(line, sizeof(line), table) != NULL) {
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu @%127s", &inode, name) != 2 ||
                strncmp(name, kind, strlen(kind)) != 0 || !is_own_socket(inode))
            continue;
        memcpy(server.address.sun_path + 1, name, strlen(name)); /* an abstract name begins with a zero */
        server.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    }
    fclose(table);
    assert_int_not_equal(server.size, 0);
    return server;
}

/* The connection ends, and no descriptor was passed. */
static void expect_nothing_for(const struct fd_server *server, const void *words, size_t size)
{
    char answer[256];
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&server->address, server->size), 0);
    if (size > 0)
        assert_int_equal(send(fd, words, size, MSG_NOSIGNAL), size);
    expect_readable(fd);
    assert_true(recv(fd, answer, sizeof(answer), 0) <= 0);
    close(fd);
}

/* Request of a caller that gets no descriptor. */
static struct {
    const void *words;
    size_t size;
    bool is_another_user;
} request_of_stranger;

static void call_as_stranger(int in)
{
    struct fd_server server;
    assert_int_equal(read(in, &server, sizeof(server)), sizeof(server));
    if (request_of_stranger.is_another_user)
        drop_rights();
    expect_nothing_for(&server, request_of_stranger.words, request_of_stranger.size);
}

/* Requests from a child process leave no trace here, and later connections work. */
static void reject_a_foreign_caller(void)
{
    struct pair p;
    const struct child stranger = start_child(call_as_stranger);
    open_pair(&p, &(struct options){0});
    const unsigned before = entries_in("/proc/self/fd", "");
    const struct fd_server server = own_server("softrdma-fd/");
    assert_int_equal(write(stranger.out, &server, sizeof(server)), sizeof(server));
    assert_int_equal(exit_code_of(stranger.pid), 0);
    expect_descriptors(before);
    post_and_expect(&p.client, IBV_WR_RDMA_WRITE, 1, 0, 8, &p.server, 0, IBV_WC_SUCCESS);
    close_pair(&p);
    open_pair(&p, &(struct options){0});
    close_pair(&p);
}

enum {
    crowd = 300,
    max_silent = 128, /* maximum number of silent callers that the server keeps */
};

/* If the server could keep the whole crowd, each client would have two seconds for its request. */
static void receive_a_silent_crowd_at(const char *kind)
{
    struct pair p;
    struct pollfd callers[crowd];
    char byte;
    open_pair(&p, &(struct options){0});
    struct ibv_qp *datagrams = create_plain_qp(p.client.pd, p.client.cq, IBV_QPT_UD, 1);
    const unsigned before = entries_in("/proc/self/fd", "");
    const struct fd_server server = own_server(kind);
    for (unsigned i = 0; i < crowd; ++i) {
        callers[i] = (struct pollfd){.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), .events = POLLIN};
        assert_int_equal(connect(callers[i].fd, (const struct sockaddr *)&server.address, server.size), 0);
    }
    for (unsigned i = 0; i < crowd - max_silent; ++i) {
        assert_int_equal(poll(&callers[i], 1, time_limit_ms), 1);
        assert_int_equal(recv(callers[i].fd, &byte, 1, 0), 0);
        assert_true(entries_in("/proc/self/fd", "") <= before + crowd + max_silent + 2);
    }
    for (unsigned i = 0; i < crowd; ++i)
        close(callers[i].fd);
    expect_descriptors(before);
    assert_int_equal(ibv_destroy_qp(datagrams), 0);
    close_pair(&p);
    open_pair(&p, &(struct options){0});
    close_pair(&p);
}

TEST_IN_OWN_PROCESS(silent_peers_are_disconnected)
{
    receive_a_silent_crowd_at("softrdma-fd/");
}

TEST_IN_OWN_PROCESS(peers_without_rings_are_disconnected)
{
    receive_a_silent_crowd_at("softrdma-datagrams/");
}

static void reject(const void *words, size_t size, bool is_another_user)
{
    request_of_stranger.words = words;
    request_of_stranger.size = size;
    request_of_stranger.is_another_user = is_another_user;
    in_own_process(reject_a_foreign_caller);
}

static void send_one_message(int in)
{
    struct greeting greeting;
    struct remote r = {.size = page_size};
    assert_int_equal(read(in, &greeting, sizeof(greeting)), sizeof(greeting));
    call_server(&r, greeting.port);
    post_and_expect(&r.pair.client, IBV_WR_SEND, 1, 0, 64, NULL, 0, IBV_WC_SUCCESS);
    for (;;)
        pause();
}

/* A connection is established even if the peer cannot respond for this time. */
static void accept_a_caller_stopped_for(unsigned ms)
{
    PAIR p = {0};
    const struct child caller = start_child(send_one_message);
    open_listener(&p, "127.0.0.1");
    send_greeting(caller.out, &(struct greeting){.port = rdma_get_src_port(p.listener)});
    struct rdma_cm_event *request = take_request(&p);
    assert_int_equal(kill(caller.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(caller.pid, NULL, WUNTRACED), caller.pid);
    accept_request(&p, request, &(struct options){.size = page_size});
    assert_int_equal(post_receive(&p.server, 7, 0, 64), 0);
    usleep(ms * 1000);
    assert_int_equal(kill(caller.pid, SIGCONT), 0);
    assert_int_equal(expect_event(p.listen_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    expect_completion(p.server.cq, 7, IBV_WC_SUCCESS);
    kill_child(caller.pid);
    assert_int_equal(expect_event(p.listen_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
}

/* The peer waits for the response for a shorter time, so the connection uses the network. */
TEST_IN_OWN_PROCESS_OF_ROOT(a_stopped_peer_is_reached_over_the_network)
{
    setenv("SOFTRDMA_CM_TIMEOUT_MS", "16000", 1);
    drop_rights();
    accept_a_caller_stopped_for(8500);
}

/* A delay that a busy machine can cause. */
TEST_IN_OWN_PROCESS(a_slow_peer_shares_its_memory)
{
    setenv("SOFTRDMA_CM_TIMEOUT_MS", "20000", 1);
    setenv("SOFTRDMA_TRANSPORT", "shm", 1);
    accept_a_caller_stopped_for(4000);
}

TEST(a_wrong_request_gets_no_descriptor)
{
    const uint32_t wrong_token[10] = {1, 2, 3, 4, 0, UINT32_MAX}; /* otherwise a valid request for the arena */
    const char other_protocol[] = "GET / HTTP/1.1\r\n\r\n";
    reject(wrong_token, sizeof(wrong_token), false);
    reject(other_protocol, sizeof(other_protocol), false);
    reject(NULL, 0, false);
}

TEST(another_user_gets_no_descriptor)
{
    require_root();
    reject(NULL, 0, true);
}
