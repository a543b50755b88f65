/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory that is not there: a hole of a file whose file system is full, and a file that was truncated. The
 * request ends with an error, and its target goes on. */
#include "remote.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    size = 64 * 1024,
    nothing = 0,
};

static const struct server_plan sleeps = {.size = size, .access = everything | IBV_ACCESS_REMOTE_ATOMIC, .receives = 4};

static struct {
    enum ibv_wr_opcode opcode;
    size_t length;
    bool full; /* the file system, else the file is truncated */
} attempt;

/* The file system has no place in the tree: only its descriptor reaches it, and it ends with the mapping. */
static int open_small_file_system(void)
{
    const int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    assert_true(context >= 0);
    assert_int_equal(fsconfig(context, FSCONFIG_SET_STRING, "size", "64k", 0), 0);
    assert_int_equal(fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0), 0);
    const int root = fsmount(context, FSMOUNT_CLOEXEC, 0);
    assert_true(root >= 0);
    close(context);
    return root;
}

static uint8_t *map_hole_of_full_file_system(void)
{
    static const char zeros[4096];
    const int root = open_small_file_system();
    const int hole = openat(root, "hole", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const int filler = openat(root, "filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(hole >= 0 && filler >= 0);
    assert_int_equal(ftruncate(hole, size), 0);
    while (write(filler, zeros, sizeof(zeros)) > 0)
        ;
    assert_int_equal(errno, ENOSPC);
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, hole, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    close(filler);
    close(hole);
    close(root);
    return memory;
}

static void post_attempt(struct remote *r)
{
    struct side *c = &r->pair.client;
    struct ibv_sge sge = {.addr = (uintptr_t)c->memory, .length = (uint32_t)attempt.length, .lkey = c->mr->lkey};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {
            .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = attempt.opcode, .send_flags = IBV_SEND_SIGNALED};
    if (attempt.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)r->target.memory;
        wr.wr.atomic.rkey = r->mr.rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)r->target.memory;
        wr.wr.rdma.rkey = r->mr.rkey;
    }
    assert_int_equal(ibv_post_send(c->qp, &wr, &bad), 0);
}

static void meet_what_is_missing(void)
{
    struct remote r;
    int fd = -1;
    uint8_t *memory = attempt.full ? map_hole_of_full_file_system() : map_file(size, MAP_SHARED, &fd);
    start_server(&r, &sleeps, memory);
    meet_server(&r);
    if (!attempt.full)
        assert_int_equal(ftruncate(fd, 0), 0);
    post_attempt(&r);
    expect_completion(r.pair.client.cq, 2, IBV_WC_REM_OP_ERR);
    usleep(50000); /* a signal would have ended it by now */
    assert_int_equal(waitpid(r.pid, NULL, WNOHANG), nothing);
    stop_server(&r);
}

static void skip_under_thread_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
    print_message("skipped: ThreadSanitizer does not notice that a signal handler was left\n");
    skip();
#endif
}

static void try(enum ibv_wr_opcode opcode, size_t length, bool full)
{
    skip_under_thread_sanitizer();
    attempt.opcode = opcode;
    attempt.length = length;
    attempt.full = full;
    in_own_process(meet_what_is_missing);
}

static void a_write_into_a_truncated_file(void **state)
{
    (void)state;
    try(IBV_WR_RDMA_WRITE, 8, false);
    try(IBV_WR_RDMA_WRITE, size, false);
}

static void a_read_of_a_truncated_file(void **state)
{
    (void)state;
    try(IBV_WR_RDMA_READ, 8, false);
    try(IBV_WR_RDMA_READ, size, false);
}

static void a_message_into_a_truncated_file(void **state)
{
    (void)state;
    try(IBV_WR_SEND, 64, false);
}

static void an_addition_in_a_truncated_file(void **state)
{
    (void)state;
    try(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, false);
}

static void a_write_into_a_full_file_system(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can mount a file system\n");
        skip();
    }
    try(IBV_WR_RDMA_WRITE, 8, true);
    try(IBV_WR_RDMA_WRITE, size, true);
    try(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, true);
    try(IBV_WR_SEND, 64, true);
}

/* The program's own memory is missing: its request fails, and the program goes on. */
static void meet_own_missing_memory(void)
{
    struct remote r;
    int fd = -1;
    start_server(&r, &sleeps, NULL);
    meet_server(&r);
    struct side *c = &r.pair.client;
    uint8_t *memory = map_file(size, MAP_SHARED, &fd);
    struct ibv_mr *mr = ibv_reg_mr(c->pd, memory, size, everything);
    assert_non_null(mr);
    struct side own = *c;
    own.memory = memory;
    own.mr = mr;
    assert_int_equal(ftruncate(fd, 0), 0);
    struct remote with_own = r;
    with_own.pair.client = own;
    post_attempt(&with_own);
    const struct ibv_wc wc = next_completion(c->cq);
    assert_int_equal(wc.wr_id, 2);
    assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(memory, size);
    close(fd);
    stop_server(&r);
}

static void own_memory_in_a_truncated_file(void **state)
{
    (void)state;
    skip_under_thread_sanitizer();
    static const enum ibv_wr_opcode opcodes[] = {
            IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD};
    for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); ++i) {
        attempt.opcode = opcodes[i];
        attempt.length = 8;
        in_own_process(meet_own_missing_memory);
        attempt.length = 64;
        if (opcodes[i] != IBV_WR_ATOMIC_FETCH_AND_ADD)
            in_own_process(meet_own_missing_memory);
        attempt.length = size;
        if (opcodes[i] == IBV_WR_RDMA_WRITE || opcodes[i] == IBV_WR_RDMA_READ)
            in_own_process(meet_own_missing_memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(a_write_into_a_truncated_file),
            cmocka_unit_test(a_read_of_a_truncated_file),
            cmocka_unit_test(a_message_into_a_truncated_file),
            cmocka_unit_test(an_addition_in_a_truncated_file),
            cmocka_unit_test(a_write_into_a_full_file_system),
            cmocka_unit_test(own_memory_in_a_truncated_file),
    };
    return cmocka_run_group_tests_name("missing_pages", tests, NULL, NULL);
}
