/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that are newer than the headers. A libibverbs newer than the device makes the last of these. */
#include "fixture.h"

#include <dlfcn.h>
#include <sys/epoll.h>

#define NEWER(type, name, ...)                                                                                         \
    type (*name)(__VA_ARGS__);                                                                                         \
    *(void **)&name = dlsym(RTLD_DEFAULT, #name);                                                                      \
    assert_non_null(name)

TEST(the_speed_of_the_port_is_that_of_its_attributes)
{
    NEWER(int, ibv_query_port_speed, struct ibv_context *, uint32_t, uint64_t *);
    uint64_t speed = 0;
    assert_int_equal(ibv_query_port_speed(device, 1, &speed), 0);
    assert_int_equal(speed, 1000); /* 4 lanes of 25 Gb/s */
    assert_int_equal(ibv_query_port_speed(device, 2, &speed), EINVAL);
}

TEST(missing_features_are_reported)
{
    uint64_t capabilities[8];
    NEWER(int, _ibv_query_comp_cntr_caps, struct ibv_context *, void *, size_t);
    assert_int_equal(_ibv_query_comp_cntr_caps(device, capabilities, sizeof(capabilities)), EOPNOTSUPP);
    NEWER(void *, ibv_create_comp_cntr, struct ibv_context *, void *);
    errno = 0;
    expect_null(ibv_create_comp_cntr(device, capabilities), EOPNOTSUPP);
}

/* ibv_rc_pingpong of rdma-core 65 allocates its buffer with these functions. */
TEST(buffers_are_ordinary_memory)
{
    NEWER(void *, ibv_alloc_buf, struct ibv_pd *, size_t, void **);
    NEWER(struct ibv_mr *, ibv_reg_buf_mr, struct ibv_pd *, void *, void *, size_t, int);
    NEWER(int, ibv_export_buf_dmabuf_fd, void *);
    NEWER(void, ibv_free_buf, void *);
    struct ibv_pd *pd = ibv_alloc_pd(device), *other = ibv_alloc_pd(device);
    void *buffer = NULL;
    char *start = ibv_alloc_buf(pd, 5000, &buffer);
    assert_non_null(start);
    assert_int_equal((uintptr_t)start % (size_t)sysconf(_SC_PAGESIZE), 0);
    memset(start, 1, 5000);
    struct ibv_mr *mr = ibv_reg_buf_mr(pd, buffer, start + 1000, 4000, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    assert_ptr_equal(mr->addr, start + 1000);
    assert_int_equal(mr->length, 4000);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    const struct {
        struct ibv_pd *pd;
        char *start;
        size_t length;
    } wrong[] = {{other, start, 5000}, {pd, start, 5001}, {pd, start + 5000, 1}, {pd, start - 1, 2},
            {pd, start + 1, SIZE_MAX}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); ++i) {
        errno = 0;
        expect_null(ibv_reg_buf_mr(wrong[i].pd, buffer, wrong[i].start, wrong[i].length, 0), EINVAL);
    }
    expect_error(ibv_export_buf_dmabuf_fd(buffer), ENODATA);
    ibv_free_buf(buffer);
    expect_null(ibv_alloc_buf(pd, 0, &buffer), EINVAL);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
}

TEST(sets_of_rsockets_report_events)
{
    NEWER(int, repoll_create, int);
    NEWER(int, repoll_ctl, int, int, int, struct epoll_event *);
    NEWER(int, repoll_wait, int, struct epoll_event *, int, int);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const int set = repoll_create(EPOLL_CLOEXEC);
    assert_true(set >= 0);
    struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = 7}};
    assert_int_equal(repoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), 0);
    assert_int_equal(repoll_wait(set, &event, 1, 0), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    event.data.u32 = 0;
    assert_int_equal(repoll_wait(set, &event, 1, 0), 1);
    assert_int_equal(event.data.u32, 7);
    close(set);
    close(ends[0]);
    close(ends[1]);
}

/* The first three words are a bit mask and flags. */
TEST(unknown_operations_of_a_context_are_unsupported)
{
    enum {
        first_operation = 3,
        max_operations = 200
    };
    const struct verbs_context *verbs = verbs_get_ctx(device);
    assert_non_null(verbs);
    int (*const *operations)(void *, void *) = (int (*const *)(void *, void *))(const void *)verbs->priv;
    assert_non_null(operations);
    for (size_t i = first_operation; i < max_operations; ++i)
        assert_int_equal(operations[i](device, NULL), EOPNOTSUPP);
}

GROUP_FIXTURE(open_the_device, close_the_device)
