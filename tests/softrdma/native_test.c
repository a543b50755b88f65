/* SPDX-License-Identifier: BSD-3-Clause */
/* Durability by READs and FLUSHes, ATOMIC WRITE and the atomic operations. The test observes the device's calls of
 * msync, and lets them fail: this program's definition takes precedence. */
#include "native.h"
#include "remote.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
    page = 4096,
    file_size = 1 << 20,
    all_access = everything | IBV_ACCESS_REMOTE_ATOMIC | access_flush_global | access_flush_persistent,
    all_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND |
              IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | send_op_flush |
              send_op_atomic_write,
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
    if (flags != MS_SYNC)
        abort(); /* only this call waits until the pages are written */
    last = (struct synced){(uintptr_t)addr, (uintptr_t)addr + length};
    atomic_fetch_add(&syncs, 1);
    return (int)syscall(SYS_msync, addr, length, flags);
}

/* The first tests, because they fork: each has an environment variable of its own. */
TEST_IN_OWN_PROCESS(a_device_without_native_verbs)
{
    setenv("SOFTRDMA_NATIVE_VERBS", "off", 1);
    OPEN_PAIR(p, &(struct options){.send_ops = IBV_QP_EX_WITH_RDMA_WRITE});
    struct ibv_device_attr_ex attr;
    assert_int_equal(ibv_query_device_ex(p.client.qp->context, NULL, &attr), 0);
    assert_true(
            (attr.device_cap_flags_ex & (device_flush_global | device_flush_persistent | device_atomic_write)) == 0);
    expect_null((ibv_reg_mr)(p.client.pd, p.client.memory, page, everything | access_flush_global), EOPNOTSUPP);
    expect_no_send_ops(&p.client, send_op_flush);
    expect_no_send_ops(&p.client, send_op_atomic_write);
    assert_null(wr_flush_of(ibv_qp_to_qp_ex(p.client.qp)));
    assert_int_not_equal(post(&p.client, (enum ibv_wr_opcode)wr_opcode_atomic_write, 1, 0, 8, &p.server, 0, 0), 0);
}

static void expect_region(struct ibv_pd *pd, uint8_t *memory, int access)
{
    struct ibv_mr *mr = create_mr(pd, memory, page, access);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

TEST_IN_OWN_PROCESS(volatile_memory_can_be_refused)
{
    setenv("SOFTRDMA_VOLATILE", "reject", 1);
    OPEN_PAIR(p, NULL);
    expect_null((ibv_reg_mr)(p.client.pd, p.client.memory, page, everything | access_flush_persistent), EINVAL);
    expect_region(p.client.pd, p.client.memory, everything | access_flush_global);
    uint8_t *memory = map_file(page, MAP_SHARED, NULL);
    expect_region(p.client.pd, memory, everything | access_flush_persistent);
    munmap(memory, page);
}

/* Writes to the server and reads the data, which flushes it. */
static void write_and_read(struct pair *p, size_t offset, size_t length, enum ibv_wc_status status)
{
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 1, 0, length, &p->server, offset, 0), 0);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_READ, 2, 0, 8, &p->server, offset, 0), 0);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    expect_completion(p->client.cq, 2, status);
}

TEST_IN_OWN_PROCESS(reads_may_flush_nothing)
{
    setenv("SOFTRDMA_READ_FLUSH", "off", 1);
    OPEN_PAIR(p, &(struct options){.server_file = MAP_SHARED});
    write_and_read(&p, 0, 8, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 0);
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
    write_and_read(p, 5000, 100, IBV_WC_SUCCESS);
    assert_false(atomic_load(&hold));
    assert_int_equal(atomic_load(&syncs), 1);
    pthread_join(releaser, NULL);
    assert_true(last.begin <= (uintptr_t)p->server.memory + 5000 && last.end >= (uintptr_t)p->server.memory + 5100);
}

PAIR_TEST(every_written_page_is_covered, with_shared_file)
{
    post_and_expect(&p->client, IBV_WR_RDMA_WRITE, 0, 0, 8, &p->server, 900000, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 0); /* a WRITE alone guarantees no durability */
    write_and_read(p, 100, 8, IBV_WC_SUCCESS);
    assert_true(last.begin <= (uintptr_t)p->server.memory + 100 && last.end >= (uintptr_t)p->server.memory + 900008);
}

/* On an RNIC, which has pinned the pages, READs by peers succeed in this case. Memory that is still mapped is
 * written. */
PAIR_TEST(a_program_may_unmap_what_is_registered, with_shared_file)
{
    post_and_expect(&p->client, IBV_WR_RDMA_WRITE, 0, 0, 8, &p->server, 0, IBV_WC_SUCCESS);
    munmap(p->server.memory, 4096);
    write_and_read(p, 8192, 8, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 1);
    assert_true(last.end >= (uintptr_t)p->server.memory + 8200);
    post_and_expect(&p->client, IBV_WR_RDMA_WRITE, 3, 0, 8, &p->server, 8192, IBV_WC_SUCCESS);
}

PAIR_TEST(a_read_without_new_writes_syncs_nothing, with_shared_file)
{
    write_and_read(p, 0, 8, IBV_WC_SUCCESS);
    const int before = atomic_load(&syncs);
    post_and_expect(&p->client, IBV_WR_RDMA_READ, 3, 0, 8, &p->server, 0, IBV_WC_SUCCESS);
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
    write_and_read(p, 0, 8, IBV_WC_REM_OP_ERR);
    atomic_store(&failing, 0);
}

PAIR_TEST(deregistering_makes_unflushed_writes_durable, with_shared_file)
{
    post_and_expect(&p->client, IBV_WR_RDMA_WRITE, 1, 0, 8, &p->server, 8192, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(p->server.mr), 0);
    p->server.mr = NULL;
    assert_int_equal(atomic_load(&syncs), 1);
    assert_true(last.begin <= (uintptr_t)p->server.memory + 8192 && last.end >= (uintptr_t)p->server.memory + 8200);
}

PAIR_TEST(private_mappings_need_no_sync, with_private_file)
{
    write_and_read(p, 0, 8, IBV_WC_SUCCESS);
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
    write_and_read(&p, 3 * file_size / 4, 8, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 0);
    write_and_read(&p, file_size / 2 - 4, 8, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 1);
    assert_true(last.end <= (uintptr_t)memory + file_size / 2);
}

static int with_file(void **state)
{
    atomic_store(&syncs, 0);
    return set_up_pair(state,
            &(struct options){
                    .size = file_size, .server_file = MAP_SHARED, .server_access = all_access, .send_ops = all_ops});
}

/* Opens a pair whose server's memory is not a file. */
#define OPEN_WITH(access)                                                                                              \
    OPEN_PAIR(p, &(struct options){.size = file_size, .server_access = access, .send_ops = all_ops})

static int with_memory(void **state)
{
    atomic_store(&syncs, 0);
    return set_up_pair(state, &(struct options){.size = file_size, .server_access = all_access, .send_ops = all_ops});
}

static int flush(struct pair *p, uint64_t wr_id, size_t offset, size_t length, uint8_t type, uint8_t level)
{
    return post_flush(&p->client, wr_id, &p->server, offset, length, type, level);
}

static void expect_flushed(struct pair *p, uint64_t wr_id)
{
    assert_int_equal(expect_completion(p->client.cq, wr_id, IBV_WC_SUCCESS).opcode, wc_opcode_flush);
}

PAIR_TEST(a_persistent_flush_syncs_its_range, with_file)
{
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 1, 0, 100, &p->server, 70000, 0), 0);
    assert_int_equal(flush(p, 2, 70000, 100, flush_persistent, flush_range), 0);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    expect_flushed(p, 2);
    assert_int_equal(atomic_load(&syncs), 1);
    assert_true(last.begin <= (uintptr_t)p->server.memory + 70000 && last.end >= (uintptr_t)p->server.memory + 70100);
    assert_true(last.end - last.begin < file_size);
}

PAIR_TEST(a_flush_of_the_region_syncs_all_of_it, with_file)
{
    assert_int_equal(flush(p, 2, 999, 0, flush_persistent | flush_global, flush_region), 0);
    expect_flushed(p, 2);
    assert_true(last.begin == (uintptr_t)p->server.memory && last.end == (uintptr_t)p->server.memory + file_size);
}

PAIR_TEST(a_global_flush_syncs_nothing, with_file)
{
    memset(p->client.memory, 'x', 8);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 1, 0, 8, &p->server, 0, 0), 0);
    assert_int_equal(flush(p, 2, 0, 8, flush_global, flush_range), 0);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    expect_flushed(p, 2);
    assert_int_equal(atomic_load(&syncs), 0);
    assert_memory_equal(p->server.memory, "xxxxxxxx", 8);
}

PAIR_TEST(a_flush_that_cannot_be_written_fails, with_file)
{
    atomic_store(&failing, EIO);
    assert_int_equal(flush(p, 2, 0, 8, flush_persistent, flush_range), 0);
    expect_completion(p->client.cq, 2, IBV_WC_REM_OP_ERR);
    atomic_store(&failing, 0);
}

static void expect_refused(int access, size_t offset, size_t length, uint8_t type, uint8_t level)
{
    OPEN_WITH(access);
    assert_int_equal(flush(&p, 2, offset, length, type, level), 0);
    expect_completion(p.client.cq, 2, IBV_WC_REM_ACCESS_ERR);
}

TEST(a_flush_needs_its_right_and_its_range)
{
    expect_refused(everything | access_flush_global, 0, 8, flush_persistent, flush_range);
    expect_refused(everything | access_flush_global, 0, 8, flush_persistent | flush_global, flush_range);
    expect_refused(everything | access_flush_persistent, 0, 8, flush_global, flush_range);
    expect_refused(everything, 0, 0, flush_global, flush_region);
    expect_refused(all_access, file_size - 4, 8, flush_global, flush_range);
    expect_refused(all_access, file_size + 8, 0, flush_global, flush_range);
}

PAIR_TEST(volatile_memory_may_be_flushed_by_default, with_memory)
{
    assert_int_equal(flush(p, 2, 0, file_size, flush_persistent, flush_range), 0);
    expect_flushed(p, 2);
    assert_int_equal(atomic_load(&syncs), 0);
}

PAIR_TEST(impossible_flushes_are_not_posted, with_memory)
{
    assert_int_equal(flush(p, 1, 0, 8, 0, flush_range), EINVAL);
    assert_int_equal(flush(p, 1, 0, 8, 4, flush_range), EINVAL);
    assert_int_equal(flush(p, 1, 0, 8, flush_global, 2), EINVAL);
    assert_int_equal(flush(p, 1, 0, 1ULL << 32, flush_global, flush_range), EINVAL);
    struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)wr_opcode_flush}, *bad = NULL;
    assert_int_equal(ibv_post_send(p->client.qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    assert_int_equal(flush(p, 7, 0, 8, flush_global, flush_range), 0);
    expect_flushed(p, 7);
}

static int atomic_write(struct pair *p, uint64_t wr_id, size_t offset, const void *word)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p->client.qp);
    ibv_wr_start(qp);
    qp->wr_id = wr_id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_write(qp, p->server.mr->rkey, (uintptr_t)p->server.memory + offset, word);
    return ibv_wr_complete(qp);
}

PAIR_TEST(an_atomic_write_places_its_word, with_memory)
{
    char word[] = "pointer!";
    assert_int_equal(atomic_write(p, 5, 64, word), 0);
    memset(word, '-', sizeof(word)); /* it was copied */
    assert_int_equal(expect_completion(p->client.cq, 5, IBV_WC_SUCCESS).opcode, wc_opcode_atomic_write);
    assert_memory_equal(p->server.memory + 64, "pointer!", 8);
    assert_int_equal(p->server.memory[63] | p->server.memory[72], 0);

    p->client.memory[0] = 'g';
    post_and_expect(&p->client, (enum ibv_wr_opcode)wr_opcode_atomic_write, 6, 0, 8, &p->server, 128, IBV_WC_SUCCESS);
    assert_int_equal(p->server.memory[128], 'g');
}

PAIR_TEST(an_atomic_write_is_aligned, with_memory)
{
    assert_int_equal(atomic_write(p, 5, 4, "unalignd"), 0);
    expect_completion(p->client.cq, 5, IBV_WC_REM_INV_REQ_ERR);
    assert_int_equal(p->server.memory[4], 0);
}

PAIR_TEST(an_atomic_write_is_one_word, with_memory)
{
    post_and_expect(
            &p->client, (enum ibv_wr_opcode)wr_opcode_atomic_write, 6, 0, 16, &p->server, 0, IBV_WC_LOC_LEN_ERR);
}

TEST(an_atomic_write_needs_the_right_to_write)
{
    OPEN_WITH(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    assert_int_equal(atomic_write(&p, 5, 0, "readonly"), 0);
    expect_completion(p.client.cq, 5, IBV_WC_REM_ACCESS_ERR);
}

static int atomic_operation(
        struct pair *p, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t offset, uint64_t compare_add, uint64_t swap)
{
    return post_atomic(&p->client, opcode, wr_id, &p->server, offset, compare_add, swap);
}

static uint64_t found(struct pair *p, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = next_completion(p->client.cq);
    assert_string_equal(ibv_wc_status_str(wc.status), "success");
    assert_int_equal(wc.opcode, opcode);
    assert_int_equal(wc.byte_len, 8);
    uint64_t value;
    memcpy(&value, p->client.memory, sizeof(value));
    return value;
}

PAIR_TEST(atomic_operations_return_what_they_found, with_memory)
{
    uint64_t *word = (uint64_t *)(void *)(p->server.memory + 8);
    *word = 40;
    assert_int_equal(atomic_operation(p, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8, 2, 0), 0);
    assert_int_equal(found(p, IBV_WC_FETCH_ADD), 40);
    assert_int_equal(*word, 42);
    assert_int_equal(atomic_operation(p, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 8, 41, 7), 0);
    assert_int_equal(found(p, IBV_WC_COMP_SWAP), 42);
    assert_int_equal(*word, 42);
    assert_int_equal(atomic_operation(p, IBV_WR_ATOMIC_CMP_AND_SWP, 3, 8, 42, 7), 0);
    assert_int_equal(found(p, IBV_WC_COMP_SWAP), 42);
    assert_int_equal(*word, 7);

    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p->client.qp);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_fetch_add(qp, p->server.mr->rkey, (uintptr_t)word, 1);
    ibv_wr_set_sge(qp, p->client.mr->lkey, (uintptr_t)p->client.memory, 8);
    ibv_wr_atomic_cmp_swp(qp, p->server.mr->rkey, (uintptr_t)word, 8, 9);
    ibv_wr_set_sge(qp, p->client.mr->lkey, (uintptr_t)p->client.memory + 8, 8);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(found(p, IBV_WC_FETCH_ADD), 7);
    assert_int_equal(found(p, IBV_WC_COMP_SWAP), 7);
    assert_int_equal(p->client.memory[8], 8);
    assert_int_equal(*word, 9);
}

TEST(atomic_operations_need_their_right)
{
    OPEN_WITH(everything);
    assert_int_equal(atomic_operation(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8, 2, 0), 0);
    expect_completion(p.client.cq, 1, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(p.server.memory[8], 0);
}

PAIR_TEST(atomic_operations_need_alignment, with_memory)
{
    assert_int_equal(atomic_operation(p, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 4, 0, 1), 0);
    expect_completion(p->client.cq, 1, IBV_WC_REM_INV_REQ_ERR);
}

TEST(an_atomic_operation_takes_eight_bytes)
{
    for (uint32_t length = 7; length <= 9; length += 2) {
        OPEN_WITH(all_access);
        memset(p.client.memory, 'c', 16);
        struct ibv_sge sge = sge_of(&p.client, 0, length);
        struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP};
        wr.wr.atomic.remote_addr = (uintptr_t)p.server.memory;
        wr.wr.atomic.rkey = p.server.mr->rkey;
        wr.wr.atomic.swap = 1;
        post_wr_and_expect(&p.client, wr, IBV_WC_LOC_LEN_ERR);
        assert_int_equal(p.server.memory[0], 0);
        assert_memory_equal(p.client.memory, "cccccccccccccccc", 16);
    }
}

/* More requests with round trips than can be in flight, mixed with requests that are only acknowledged. */
TEST(round_trips_keep_their_order)
{
    OPEN_PAIR(p, &(struct options){.server_access = all_access, .send_ops = all_ops, .depth = 512});
    for (unsigned i = 0; i < 100; ++i) {
        assert_int_equal(post(&p.client, IBV_WR_RDMA_WRITE, 4 * i, 0, 8, &p.server, 0, 0), 0);
        assert_int_equal(flush(&p, 4 * i + 1, 0, 8, flush_global, flush_range), 0);
        assert_int_equal(atomic_operation(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 4 * i + 2, 8, 1, 0), 0);
        assert_int_equal(atomic_write(&p, 4 * i + 3, 16, "12345678"), 0);
    }
    for (unsigned i = 0; i < 400; ++i)
        expect_completion(p.client.cq, i, IBV_WC_SUCCESS);
    assert_int_equal(p.server.memory[8], 100);
}
