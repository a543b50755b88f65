/* SPDX-License-Identifier: BSD-3-Clause */
/* Effects of the environment variable on durability. Each case runs with the variable set as its argument specifies. */
#include "native.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    page = 4096,
};

static atomic_int syncs;

int msync(void *addr, size_t length, int flags)
{
    atomic_fetch_add(&syncs, 1);
    return (int)syscall(SYS_msync, addr, length, flags);
}

static void a_device_without_native_verbs(void **state)
{
    OPEN_PAIR(p, &(struct options){.send_ops = IBV_QP_EX_WITH_RDMA_WRITE});
    struct ibv_device_attr_ex attr;
    assert_int_equal(ibv_query_device_ex(p.client.qp->context, NULL, &attr), 0);
    assert_true(
            (attr.device_cap_flags_ex & (device_flush_global | device_flush_persistent | device_atomic_write)) == 0);
    assert_null((ibv_reg_mr)(p.client.pd, p.client.memory, page, everything | access_flush_global));
    assert_int_equal(errno, EOPNOTSUPP);
    const uint64_t ops[] = {send_op_flush, send_op_atomic_write};
    for (size_t i = 0; i < 2; ++i)
        expect_no_send_ops(&p.client, ops[i]);
    assert_null(wr_flush_of(ibv_qp_to_qp_ex(p.client.qp)));
    assert_int_not_equal(post(&p.client, (enum ibv_wr_opcode)wr_opcode_atomic_write, 1, 0, 8, &p.server, 0, 0), 0);
}

static void volatile_memory_refused(void **state)
{
    OPEN_PAIR(p, NULL);
    assert_null((ibv_reg_mr)(p.client.pd, p.client.memory, page, everything | access_flush_persistent));
    assert_int_equal(errno, EINVAL);
    struct ibv_mr *mr = (ibv_reg_mr)(p.client.pd, p.client.memory, page, everything | access_flush_global);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    uint8_t *memory = map_file(page, MAP_SHARED, NULL);
    mr = (ibv_reg_mr)(p.client.pd, memory, page, everything | access_flush_persistent);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(memory, page);
}

static void reads_that_flush_nothing(void **state)
{
    OPEN_PAIR(p, &(struct options){.server_file = MAP_SHARED});
    assert_int_equal(post(&p.client, IBV_WR_RDMA_WRITE, 1, 0, 8, &p.server, 0, 0), 0);
    assert_int_equal(post(&p.client, IBV_WR_RDMA_READ, 2, 0, 8, &p.server, 0, 0), 0);
    expect_completion(p.client.cq, 1, IBV_WC_SUCCESS);
    expect_completion(p.client.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(atomic_load(&syncs), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(a_device_without_native_verbs),
            cmocka_unit_test(volatile_memory_refused),
            cmocka_unit_test(reads_that_flush_nothing),
    };
    const char *const variables[] = {"SOFTRDMA_NATIVE_VERBS", "SOFTRDMA_VOLATILE", "SOFTRDMA_READ_FLUSH"};
    for (size_t i = 0; argc == 2 && i < 3; ++i) {
        if (strcmp(argv[1], variables[i]) == 0 && getenv(variables[i]) != NULL)
            return _cmocka_run_group_tests("policy", &tests[i], 1, NULL, NULL);
    }
    fprintf(stderr, "usage: softrdma_policy_test VARIABLE   (which has to be set)\n");
    return 2;
}
