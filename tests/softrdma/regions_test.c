/* SPDX-License-Identifier: BSD-3-Clause */
/* ibv_advise_mr(): accepted and rejected arguments, and the pages that are present afterwards; and ibv_rereg_mr(). */
#include "fixture.h"

#include <fcntl.h>
#include <sys/mman.h>

enum {
    pages = 16
};

struct world {
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    uint8_t *memory;
    size_t page;
};

static int opened(void **state)
{
    struct world *w = test_malloc(sizeof(*w));
    assert_int_equal(open_the_device(state), 0);
    w->pd = ibv_alloc_pd(device);
    w->page = (size_t)sysconf(_SC_PAGESIZE);
    w->memory = map_file(pages * w->page, MAP_SHARED, NULL);
    w->mr = create_mr(w->pd, w->memory, pages * w->page, everything);
    *state = w;
    return 0;
}

static int closed(void **state)
{
    struct world *w = *state;
    assert_int_equal(ibv_dereg_mr(w->mr), 0);
    assert_int_equal(ibv_dealloc_pd(w->pd), 0);
    assert_int_equal(close_the_device(state), 0);
    munmap(w->memory, pages * w->page);
    test_free(w);
    return 0;
}

static int advise(struct world *w, size_t offset, size_t length, enum ibv_advise_mr_advice advice, uint32_t flags)
{
    struct ibv_sge range = {.addr = (uintptr_t)w->memory + offset, .length = (uint32_t)length, .lkey = w->mr->lkey};
    return ibv_advise_mr(w->pd, advice, flags, &range, 1);
}

/* Returns which pages this process has mapped, from bit 63 of /proc/self/pagemap. */
static unsigned present(const struct world *w)
{
    uint64_t entries[pages];
    const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    const off_t at = (off_t)((uintptr_t)w->memory / w->page * sizeof(entries[0]));
    assert_int_equal(pread(fd, entries, sizeof(entries), at), sizeof(entries));
    close(fd);
    unsigned count = 0;
    for (unsigned i = 0; i < pages; ++i)
        count += (unsigned)(entries[i] >> 63);
    return count;
}

DEFINE_TEST_WITH(struct world *w, every_prefetch_is_accepted, opened, closed)
{
    const enum ibv_advise_mr_advice advices[] = {
            IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT};
    for (unsigned i = 0; i < 3; ++i) {
        assert_int_equal(advise(w, 0, pages * w->page, advices[i], 0), 0);
        assert_int_equal(advise(w, 0, pages * w->page, advices[i], IBV_ADVISE_MR_FLAG_FLUSH), 0);
        assert_int_equal(advise(w, 10, 1, advices[i], IBV_ADVISE_MR_FLAG_FLUSH), 0);
        assert_int_equal(advise(w, pages * w->page, 0, advices[i], IBV_ADVISE_MR_FLAG_FLUSH), 0);
    }
}

DEFINE_TEST_WITH(struct world *w, a_flushed_prefetch_faults_the_pages_in, opened, closed)
{
    if (madvise(w->memory, w->page, 23 /* MADV_POPULATE_WRITE */) != 0 && errno == EINVAL)
        skip_because("the kernel cannot fault pages in (Linux 5.14)");
    assert_int_equal(madvise(w->memory, pages * w->page, MADV_DONTNEED), 0);
    assert_int_equal(present(w), 0);
    assert_int_equal(advise(w, 5 * w->page + 9, 3 * w->page, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 1), 0);
    assert_true(present(w) >= 4);
    assert_int_equal(advise(w, 0, pages * w->page, IBV_ADVISE_MR_ADVICE_PREFETCH, 1), 0);
    assert_int_equal(present(w), pages);
}

DEFINE_TEST_WITH(struct world *w, unknown_and_out_of_range_values_are_rejected, opened, closed)
{
    const enum ibv_advise_mr_advice prefetch = IBV_ADVISE_MR_ADVICE_PREFETCH;
    assert_int_equal(advise(w, 0, 8, (enum ibv_advise_mr_advice)17, 0), EOPNOTSUPP);
    assert_int_equal(advise(w, 0, 8, prefetch, 2), EINVAL);
    assert_int_equal(ibv_advise_mr(w->pd, prefetch, 0, NULL, 0), EINVAL);
    assert_int_equal(advise(w, pages * w->page, 1, prefetch, 0), EFAULT);
    assert_int_equal(advise(w, 1, pages * w->page, prefetch, 0), EFAULT);
    struct ibv_pd *other = ibv_alloc_pd(device);
    struct ibv_sge ranges[2] = {{.addr = (uintptr_t)w->memory, .length = 8, .lkey = w->mr->lkey},
            {.addr = (uintptr_t)w->memory, .length = 8, .lkey = w->mr->lkey ^ 1u}};
    assert_int_equal(ibv_advise_mr(other, prefetch, 0, ranges, 1), EFAULT);
    assert_int_equal(ibv_advise_mr(w->pd, prefetch, 0, ranges, 2), EFAULT);
    assert_int_equal(ibv_dealloc_pd(other), 0);
}

DEFINE_TEST_WITH(struct world *w, only_writable_memory_is_prefetched_for_writing, opened, closed)
{
    struct ibv_mr *mr = create_mr(w->pd, w->memory, w->page, IBV_ACCESS_REMOTE_READ);
    struct ibv_sge range = {.addr = (uintptr_t)w->memory, .length = 8, .lkey = mr->lkey};
    assert_int_equal(ibv_advise_mr(w->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &range, 1), EFAULT);
    assert_int_equal(ibv_advise_mr(w->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* A page beyond the end of a truncated file, and unmapped memory. */
DEFINE_TEST_WITH(struct world *w, memory_that_is_not_there_is_refused, opened, closed)
{
    int file = -1;
    uint8_t *memory = map_file(2 * w->page, MAP_SHARED, &file);
    struct ibv_mr *mr = create_mr(w->pd, memory, 2 * w->page, everything);
    struct ibv_sge range = {.addr = (uintptr_t)memory, .length = (uint32_t)(2 * w->page), .lkey = mr->lkey};
    munmap(memory, 2 * w->page);
    const int error = ibv_advise_mr(w->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1);
    assert_true(error == EFAULT || error == 0); /* a kernel without the advice cannot detect it */
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close(file);
}

static void use(struct pair *p, enum ibv_wr_opcode opcode, const uint8_t *at, enum ibv_wc_status status)
{
    struct side target = p->server;
    target.memory = (uint8_t *)(uintptr_t)at;
    post_and_expect(&p->client, opcode, 1, 0, 8, &target, 0, status);
}

static int change(struct pair *p, int what, struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_rereg_mr(p->server.mr, what, pd, addr, length, access);
}

PAIR_TEST(a_revoked_right_is_not_in_the_key, connected)
{
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_SUCCESS);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ), 0);
    use(p, IBV_WR_RDMA_READ, p->server.memory, IBV_WC_SUCCESS);
    memset(p->client.memory, 1, 8);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(p->server.memory[0], 0);
}

PAIR_TEST(a_granted_right_is_in_the_key, connected)
{
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, (int)everything), 0);
    fill(p->client.memory, 8, 3);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_SUCCESS);
    assert_memory_equal(p->server.memory, p->client.memory, 8);
}

PAIR_TEST(a_region_can_be_elsewhere, connected)
{
    uint8_t *elsewhere = calloc(1, 8192);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_SUCCESS);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, 8192, 0), 0);
    assert_ptr_equal(p->server.mr->addr, elsewhere);
    assert_int_equal(p->server.mr->length, 8192);
    fill(p->client.memory, 8, 4);
    use(p, IBV_WR_RDMA_WRITE, elsewhere + 8184, IBV_WC_SUCCESS);
    assert_memory_equal(elsewhere + 8184, p->client.memory, 8);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(p->server.mr), 0);
    p->server.mr = ibv_reg_mr(p->server.pd, p->server.memory, 64, IBV_ACCESS_LOCAL_WRITE);
    free(elsewhere);
}

PAIR_TEST(a_region_can_go_to_another_domain, connected)
{
    struct ibv_pd *pd = ibv_alloc_pd(p->server.id->verbs);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
    assert_ptr_equal(p->server.mr->pd, pd);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_PD, p->server.pd, NULL, 0, 0), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

PAIR_TEST(a_domain_that_is_not_the_queue_pairs_serves_again_when_it_is, connected)
{
    struct ibv_pd *pd = ibv_alloc_pd(p->server.id->verbs);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_PD, p->server.pd, NULL, 0, 0), 0);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

PAIR_TEST(a_posted_receive_is_looked_up_again, connected)
{
    uint8_t *elsewhere = calloc(1, 4096);
    assert_int_equal(post_receive(&p->server, 7, 0, 64), 0);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, 4096, 0), 0);
    memset(p->client.memory, 1, 8);
    post_and_expect(&p->client, IBV_WR_SEND, 1, 0, 8, NULL, 0, IBV_WC_REM_OP_ERR);
    expect_completion(p->server.cq, 7, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(p->server.memory[0], 0);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p->server.memory, 4096, 0), 0);
    free(elsewhere);
}

PAIR_TEST(invalid_arguments_change_nothing, connected)
{
    const struct {
        int what;
        void *addr;
        size_t length;
        int access;
        int error;
    } wrong[] = {{0, NULL, 0, 0, EINVAL}, {8, NULL, 0, 0, EINVAL}, {IBV_REREG_MR_CHANGE_PD, NULL, 0, 0, EINVAL},
            {IBV_REREG_MR_CHANGE_TRANSLATION, NULL, 64, 0, EINVAL},
            {IBV_REREG_MR_CHANGE_TRANSLATION, p->server.memory, 0, 0, EINVAL},
            {IBV_REREG_MR_CHANGE_TRANSLATION, (void *)(uintptr_t)4096, 64, 0, EFAULT},
            {IBV_REREG_MR_CHANGE_ACCESS, NULL, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL},
            {IBV_REREG_MR_CHANGE_ACCESS, NULL, 0, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        errno = 0;
        assert_int_equal(change(p, wrong[i].what, NULL, wrong[i].addr, wrong[i].length, wrong[i].access),
                IBV_REREG_MR_ERR_INPUT);
        assert_int_equal(errno, wrong[i].error);
    }
    fill(p->client.memory, 8, 5);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_SUCCESS);
    assert_memory_equal(p->server.memory, p->client.memory, 8);
}
