/* SPDX-License-Identifier: BSD-3-Clause */
/* The test observes the device's calls of msync, and lets them fail: this program's definition takes precedence. */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    file_size = 1 << 20,
};

struct synced {
    uintptr_t begin;
    uintptr_t end;
};

static atomic_int syncs;
static atomic_int failing; /* errno value to fail with */
static struct synced last; /* published by syncs */
static atomic_bool hold;   /* msync waits while this is set */

int msync(void *addr, size_t length, int flags)
{
    while (atomic_load(&hold))
        usleep(1000);
    int error = atomic_load(&failing);
    if (error != 0) {
        errno = error;
        return -1;
    }
    if (flags == MS_SYNC) {
        last = (struct synced){(uintptr_t)addr, (uintptr_t)addr + length};
        atomic_fetch_add(&syncs, 1);
    }
    return (int)syscall(SYS_msync, addr, length, flags);
}

static int with_shared_file(void **state)
{
    atomic_store(&syncs, 0);
    return set_up_pair(state, &(struct options){.size = file_size, .server_file = MAP_SHARED});
}

static int with_private_file(void **state)
{
    atomic_store(&syncs, 0);
    return set_up_pair(state, &(struct options){.size = file_size, .server_file = MAP_PRIVATE});
}

static void write_and_flush(struct pair *p, size_t offset, size_t length)
{
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 1, 0, length, &p->server, offset, 0), 0);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_READ, 2, 0, 8, &p->server, offset, 0), 0);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
}

static void *release_soon(void *unused)
{
    usleep(100000);
    atomic_store(&hold, false);
    return unused;
}

PAIR_TEST(a_read_completes_after_the_file_was_synced, with_shared_file)
{
    atomic_store(&hold, true);
    pthread_t releaser;
    assert_int_equal(pthread_create(&releaser, NULL, release_soon, NULL), 0);
    write_and_flush(p, 5000, 100);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    assert_false(atomic_load(&hold));
    assert_int_equal(atomic_load(&syncs), 1);
    pthread_join(releaser, NULL);
    assert_true(last.begin <= (uintptr_t)p->server.memory + 5000 && last.end >= (uintptr_t)p->server.memory + 5100);
}

PAIR_TEST(every_written_page_is_covered, with_shared_file)
{
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 0, 0, 8, &p->server, 900000, 0), 0);
    expect_completion(p->client.cq, 0, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 0); /* a WRITE alone guarantees no durability */
    write_and_flush(p, 100, 8);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    assert_true(last.begin <= (uintptr_t)p->server.memory + 100 && last.end >= (uintptr_t)p->server.memory + 900008);
}

/* On an RNIC, which has pinned the pages, READs by peers succeed in this case. Memory that is still mapped is
 * written. */
PAIR_TEST(a_program_may_unmap_what_is_registered, with_shared_file)
{
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 0, 0, 8, &p->server, 0, 0), 0);
    expect_completion(p->client.cq, 0, IBV_WC_SUCCESS);
    munmap(p->server.memory, 4096);
    write_and_flush(p, 8192, 8);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 1);
    assert_true(last.end >= (uintptr_t)p->server.memory + 8200);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 3, 0, 8, &p->server, 8192, 0), 0);
    expect_completion(p->client.cq, 3, IBV_WC_SUCCESS);
}

PAIR_TEST(a_read_without_new_writes_syncs_nothing, with_shared_file)
{
    write_and_flush(p, 0, 8);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    const int before = atomic_load(&syncs);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_READ, 3, 0, 8, &p->server, 0, 0), 0);
    expect_completion(p->client.cq, 3, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), before);
}

PAIR_TEST(received_messages_are_durable_too, with_shared_file)
{
    assert_int_equal(post_receive(&p->server, 9, 4096, 64), 0);
    assert_int_equal(post(&p->client, IBV_WR_SEND, 1, 0, 64, NULL, 0, 0), 0);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_READ, 2, 0, 8, &p->server, 0, 0), 0);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 1);
}

PAIR_TEST(a_failed_sync_fails_the_read, with_shared_file)
{
    atomic_store(&failing, EIO);
    write_and_flush(p, 0, 8);
    expect_completion(p->client.cq, 2, IBV_WC_REM_OP_ERR);
    atomic_store(&failing, 0);
}

PAIR_TEST(deregistering_makes_unflushed_writes_durable, with_shared_file)
{
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 1, 0, 8, &p->server, 8192, 0), 0);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(p->server.mr), 0);
    p->server.mr = NULL;
    assert_int_equal(atomic_load(&syncs), 1);
    assert_true(last.begin <= (uintptr_t)p->server.memory + 8192 && last.end >= (uintptr_t)p->server.memory + 8200);
}

PAIR_TEST(private_mappings_need_no_sync, with_private_file)
{
    write_and_flush(p, 0, 8);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 0);
}

TEST(a_region_may_span_mappings_of_both_kinds)
{
    uint8_t *memory = mmap(NULL, file_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    uint8_t *file = map_file(file_size, MAP_SHARED, NULL);
    assert_ptr_not_equal(mremap(file, file_size, file_size / 2, MREMAP_MAYMOVE | MREMAP_FIXED, memory), MAP_FAILED);
    atomic_store(&syncs, 0);
    OPEN_PAIR(p, &(struct options){.size = file_size, .server_memory = memory});
    write_and_flush(&p, 3 * file_size / 4, 8);
    expect_completion(p.client.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 0);
    write_and_flush(&p, file_size / 2 - 4, 8);
    expect_completion(p.client.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 1);
    assert_true(last.end <= (uintptr_t)memory + file_size / 2);
}
