/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory without pages: a hole of a file on a full file system, a truncated file, huge pages that the system
 * does not have. Mappings are shared or private. The request ends with an error, and its target continues. */
#include "remote.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

enum {
    size = 64 * 1024,
    huge_page = 2 * 1024 * 1024,
    nothing = 0,
};

enum missing {
    truncated,
    truncated_after_use, /* the peer has mapped the file */
    truncated_private,
    full, /* the file system */
    full_private,
    no_huge_pages,
};

static const struct server_plan sleeps = {.size = size, .access = everything | IBV_ACCESS_REMOTE_ATOMIC, .receives = 4};

static struct {
    enum ibv_wr_opcode opcode;
    size_t length;
    enum missing missing;
} attempt;

/* The file system is not mounted in the tree: only its descriptor refers to it, and it ends with the mapping. */
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

static uint8_t *map_hole_of_full_file_system(int flags)
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
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, hole, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    close(filler);
    close(hole);
    close(root);
    return memory;
}

static uint8_t *map_huge_page(void)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE | (21 << MAP_HUGE_SHIFT);
    uint8_t *memory = mmap(NULL, huge_page, PROT_READ | PROT_WRITE, flags, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

/* Maps memory whose pages are missing now, or, if `fd` is set, when its file is truncated. */
static uint8_t *map_missing(int *fd)
{
    *fd = -1;
    switch (attempt.missing) {
    case full:
        return map_hole_of_full_file_system(MAP_SHARED);
    case full_private:
        return map_hole_of_full_file_system(MAP_PRIVATE);
    case no_huge_pages:
        return map_huge_page();
    case truncated:
    case truncated_after_use:
        return map_file(size, MAP_SHARED, fd);
    default:
        return map_file(size, MAP_PRIVATE, fd);
    }
}

static void post_attempt(struct remote *r)
{
    struct side *c = &r->pair.client;
    if (attempt.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        assert_int_equal(post_atomic(c, attempt.opcode, 2, &r->target, 0, 1, 0), 0);
    else
        assert_int_equal(post(c, attempt.opcode, 2, 0, attempt.length, &r->target, 0, 0), 0);
}

static void meet_what_is_missing(void)
{
    int fd;
    uint8_t *memory = map_missing(&fd);
    MEET_SERVER(r, &sleeps, memory);
    if (attempt.missing == truncated_after_use) {
        post_and_expect(&r.pair.client, IBV_WR_RDMA_WRITE, 1, 0, 8, &r.target, 0, IBV_WC_SUCCESS);
    }
    if (fd >= 0)
        assert_int_equal(ftruncate(fd, 0), 0);
    post_attempt(&r);
    expect_completion(r.pair.client.cq, 2, IBV_WC_REM_OP_ERR);
    usleep(50000); /* a signal would have ended the process by now */
    assert_int_equal(waitpid(r.pid, NULL, WNOHANG), nothing);
}

static void skip_under_thread_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
    skip_because("ThreadSanitizer does not notice that a signal handler was left");
#endif
}

static void try(enum ibv_wr_opcode opcode, size_t length, enum missing missing)
{
    skip_under_thread_sanitizer();
    attempt.opcode = opcode;
    attempt.length = length;
    attempt.missing = missing;
    in_own_process(meet_what_is_missing);
}

static void try_everything(enum missing missing)
{
    try(IBV_WR_RDMA_WRITE, 8, missing);
    try(IBV_WR_RDMA_WRITE, size, missing);
    try(IBV_WR_RDMA_READ, 8, missing);
    try(IBV_WR_RDMA_READ, size, missing);
    try(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, missing);
    try(IBV_WR_SEND, 64, missing);
}

DEFINE_TEST(a_truncated_file, NULL, NULL)
{
    try_everything(truncated);
    try_everything(truncated_after_use);
    try_everything(truncated_private);
}

DEFINE_TEST(a_file_on_a_full_file_system, NULL, NULL)
{
    if (geteuid() != 0)
        skip_because("only root can mount a file system");
    try_everything(full);
    try_everything(full_private);
}

static bool has_huge_pages(void)
{
    unsigned count = 0;
    for (const char *const *name = (const char *const[]){"free_hugepages", "nr_overcommit_hugepages", NULL}; *name;
            ++name) {
        char path[96];
        unsigned pages = 0;
        snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-2048kB/%s", *name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            return true; /* no huge pages, or none of this size */
        assert_int_equal(fscanf(file, "%u", &pages), 1);
        fclose(file);
        count += pages;
    }
    return count > 0;
}

DEFINE_TEST(huge_pages_that_cannot_be_had, NULL, NULL)
{
    if (has_huge_pages())
        skip_because("this system has huge pages of 2 MiB, or none of this size");
    try_everything(no_huge_pages);
}

/* Pages of the program's own memory are missing: its request fails, and the program continues. */
static void meet_own_missing_memory(void)
{
    int fd;
    MEET_SERVER(r, &sleeps, NULL);
    struct side *c = &r.pair.client;
    uint8_t *memory = map_missing(&fd);
    struct ibv_mr *mr = create_mr(c->pd, memory, size, everything);
    struct side own = *c;
    own.memory = memory;
    own.mr = mr;
    if (fd >= 0)
        assert_int_equal(ftruncate(fd, 0), 0);
    struct remote with_own = r;
    with_own.pair.client = own;
    post_attempt(&with_own);
    expect_completion(c->cq, 2, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    if (fd >= 0)
        close(fd);
}

static void try_own(enum missing missing)
{
    skip_under_thread_sanitizer();
    attempt.missing = missing;
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

DEFINE_TEST(own_memory_in_a_truncated_file, NULL, NULL)
{
    try_own(truncated);
    try_own(truncated_private);
}

DEFINE_TEST(own_huge_pages_that_cannot_be_had, NULL, NULL)
{
    if (has_huge_pages())
        skip();
    try_own(no_huge_pages);
}
