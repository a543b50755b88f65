/* SPDX-License-Identifier: BSD-3-Clause */
#include "remote.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

/* Without /proc. Only root can remove it; otherwise its files cannot be opened because no descriptor is left. */
static int remove_proc(void)
{
    if (geteuid() == 0) {
        assert_int_equal(unshare(CLONE_NEWNS), 0);
        assert_int_equal(mount(NULL, "/proc", NULL, MS_REC | MS_PRIVATE, NULL), 0);
        assert_int_equal(mount("none", "/proc", "tmpfs", 0, NULL), 0);
        return ENOENT;
    }
    const int next = dup(STDIN_FILENO);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, (rlim_t)next}), 0);
    return EMFILE;
}

TEST_IN_OWN_PROCESS(registration_without_proc_fails_with_a_reason)
{
    setenv("SOFTRDMA_LOG", "error", 1);
    open_the_device(NULL);
    struct ibv_pd *pd = ibv_alloc_pd(device);
    char *memory = calloc(1, 4096);
    const int log = memfd_create("log", 0), error_output = dup(STDERR_FILENO);
    assert_true(log >= 0 && error_output >= 0);
    const int expected = remove_proc();
    dup2(log, STDERR_FILENO);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
    const int error = errno;
    dup2(error_output, STDERR_FILENO);
    char text[512] = "";
    assert_true(pread(log, text, sizeof(text) - 1, 0) >= 0);
    assert_null(mr);
    assert_int_equal(error, expected);
    assert_non_null(strstr(text, "/proc/self/maps"));
    assert_non_null(strstr(text, strerror(expected)));
    _exit(0); /* LeakSanitizer needs /proc */
}

/* The first test, because it forks: the device has no thread yet. */
DEFINE_TEST(the_device_describes_itself, open_the_device, close_the_device)
{
    struct ibv_device_attr attr;
    struct ibv_device_attr_ex extended;
    struct ibv_port_attr port;
    union ibv_gid gid;
    int devices = 0;
    ibv_free_device_list(ibv_get_device_list(&devices));
    assert_int_equal(devices, 1);
    assert_int_equal(device->device->transport_type, IBV_TRANSPORT_IB);
    assert_int_equal(ibv_query_device(device, &attr), 0);
    assert_true(attr.max_qp_wr > 0 && attr.max_sge > 0 && attr.phys_port_cnt == 1);
    assert_int_equal(attr.atomic_cap, IBV_ATOMIC_HCA);
    assert_int_equal(ibv_query_device_ex(device, NULL, &extended), 0);
    assert_memory_equal(&extended.orig_attr, &attr, sizeof(attr));
    assert_int_equal(extended.odp_caps.general_caps, 0);
    assert_int_equal(extended.device_cap_flags_ex >> 38, 7); /* flush to both places, atomic write */
    assert_int_equal(ibv_query_port(device, 1, &port), 0);
    assert_int_equal(port.state, IBV_PORT_ACTIVE);
    assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_true(port.gid_tbl_len > 0);
    assert_int_not_equal(ibv_query_port(device, 2, &port), 0);
    assert_int_equal(ibv_query_gid(device, 1, 0, &gid), 0);
    assert_int_equal(ibv_query_gid(device, 1, port.gid_tbl_len, &gid), -1);
}

DEFINE_TEST(receive_capacities_are_ignored_with_a_shared_queue, open_the_device, close_the_device)
{
    struct ibv_device_attr device_attr;
    assert_int_equal(ibv_query_device(device, &device_attr), 0);
    struct ibv_pd *pd = ibv_alloc_pd(device);
    struct ibv_cq *cq = ibv_create_cq(device, 16, NULL, NULL, 0);
    struct ibv_srq *srq = create_srq(pd, 4);
    for (int type = IBV_QPT_RC; type <= IBV_QPT_UD; type += IBV_QPT_UD - IBV_QPT_RC) {
        struct ibv_qp_init_attr attr = {.send_cq = cq,
                .recv_cq = cq,
                .srq = srq,
                .qp_type = (enum ibv_qp_type)type,
                .cap = {.max_send_wr = 4,
                        .max_send_sge = 1,
                        .max_recv_wr = 10 * (uint32_t)device_attr.max_qp_wr,
                        .max_recv_sge = 10 * (uint32_t)device_attr.max_sge}};
        struct ibv_qp *qp = ibv_create_qp(pd, &attr);
        assert_non_null(qp);
        assert_int_equal(ibv_destroy_qp(qp), 0);
        attr.srq = NULL;
        expect_null(ibv_create_qp(pd, &attr), EINVAL);
        attr.srq = srq;
        attr.cap.max_send_wr = 10 * (uint32_t)device_attr.max_qp_wr;
        expect_null(ibv_create_qp(pd, &attr), EINVAL);
    }
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

DEFINE_TEST(the_device_has_a_vendor_and_a_descriptor, open_the_device, close_the_device)
{
    struct ibv_device_attr attr;
    assert_int_equal(ibv_query_device(device, &attr), 0);
    assert_int_not_equal(attr.vendor_id, 0);
    assert_int_equal(attr.vendor_id, be64toh(attr.node_guid) >> 40);
    /* Programs set or clear close-on-exec for programs that they execute. */
    assert_true((fcntl(device->cmd_fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(fcntl(device->cmd_fd, F_SETFD, FD_CLOEXEC), 0);
}

DEFINE_TEST(a_table_of_addresses_is_read_whole_or_not_at_all, open_the_device, close_the_device)
{
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(device, 1, &port), 0);
    const size_t count = (size_t)port.gid_tbl_len;
    struct ibv_gid_entry *entries = calloc(count + 1, sizeof(*entries));
    assert_non_null(entries);
    assert_int_equal(ibv_query_gid_table(device, entries, count + 1, 0), count);
    assert_int_equal(entries[count - 1].gid_index, count - 1);
    assert_int_equal(ibv_query_gid_table(device, entries, count, 0), count);
    assert_int_equal(ibv_query_gid_table(device, entries, count - 1, 0), -EINVAL);
    assert_int_equal(ibv_query_gid_table(device, entries, count, 1), -EINVAL);
    free(entries);
}

/* Programs use the first RoCE v2 address for other hosts, and prefer some of these to private addresses. */
DEFINE_TEST(loopback_addresses_are_of_roce_v1_if_there_are_others, open_the_device, close_the_device)
{
    static const uint8_t loopback_v4[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(device, 1, &port), 0);
    bool has_others = false;
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        struct ibv_gid_entry entry;
        assert_int_equal(ibv_query_gid_ex(device, 1, (uint32_t)i, &entry, 0), 0);
        const bool loopback = memcmp(entry.gid.raw, loopback_v4, sizeof(loopback_v4)) == 0 ||
                              memcmp(entry.gid.raw, in6addr_loopback.s6_addr, sizeof(entry.gid.raw)) == 0;
        has_others = has_others || !loopback; /* they come first */
        assert_int_equal(entry.gid_type, loopback && has_others ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2);
    }
}

DEFINE_TEST(a_shorter_port_structure_is_not_overrun, open_the_device, close_the_device)
{
    struct {
        struct ibv_port_attr attr;
        uint8_t guard[16];
    } port;
    memset(&port, 0x5a, sizeof(port));
    /* The function that programs compiled with old headers call. */
    assert_int_equal((ibv_query_port)(device, 1, (struct _compat_ibv_port_attr *)&port.attr), 0);
    const uint8_t *bytes = (const uint8_t *)&port;
    for (size_t i = offsetof(struct ibv_port_attr, port_cap_flags2); i < sizeof(port); ++i)
        assert_int_equal(bytes[i], 0x5a);
}

/* perftest closes the device first, and continues to use the objects. */
DEFINE_TEST(a_device_closes_whatever_is_left_open, NULL, NULL)
{
    assert_int_equal(open_the_device(NULL), 0);
    struct ibv_cq *cq = ibv_create_cq(device, 4, NULL, NULL, 0);
    assert_non_null(cq);
    assert_int_equal(close_the_device(NULL), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

DEFINE_TEST(parents_with_children_are_busy, open_the_device, close_the_device)
{
    uint8_t memory[64];
    struct ibv_pd *pd = ibv_alloc_pd(device);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(device);
    struct ibv_cq *cq = ibv_create_cq(device, 4, NULL, channel, 0);
    struct ibv_qp *qp = create_plain_qp(pd, cq, IBV_QPT_RC, 1);
    assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
    assert_int_equal(ibv_destroy_cq(cq), EBUSY);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), 0);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void expect_no_region(struct ibv_pd *pd, void *addr, size_t length, int access, int error)
{
    errno = 0;
    expect_null((ibv_reg_mr)(pd, addr, length, access), error);
}

DEFINE_TEST(registration_checks_rights_and_mappings, open_the_device, close_the_device)
{
    struct ibv_pd *pd = ibv_alloc_pd(device);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    expect_no_region(pd, memory, page, IBV_ACCESS_REMOTE_WRITE, EINVAL);
    expect_no_region(pd, memory, page, 1 << 10, EOPNOTSUPP); /* unknown flag */
    expect_no_region(pd, memory, page, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP);
    expect_no_region(pd, memory, SIZE_MAX, everything, EFAULT);
    assert_int_equal(mprotect(memory + page, page, PROT_READ), 0);
    expect_no_region(pd, memory, 2 * page, everything, EFAULT);
    struct ibv_mr *mr = create_mr(pd, memory, 2 * page, IBV_ACCESS_REMOTE_READ);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    /* A region may allow memory windows before any is created. */
    mr = create_mr(pd, memory, page, IBV_ACCESS_MW_BIND);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(munmap(memory + page, page), 0);
    expect_no_region(pd, memory, 3 * page, 0, EFAULT);
    expect_no_region(pd, memory + page, 1, 0, EFAULT);
    munmap(memory, 3 * page);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

DEFINE_TEST(keys_are_not_handed_out_in_a_row, open_the_device, close_the_device)
{
    struct ibv_pd *pd = ibv_alloc_pd(device);
    uint8_t memory[8];
    struct ibv_mr *mrs[64];
    unsigned near = 0;
    for (unsigned i = 0; i < 64; ++i) {
        mrs[i] = create_mr(pd, memory, sizeof(memory), everything);
        if (i > 0 && mrs[i]->rkey - mrs[i - 1]->rkey + 0x10000 < 0x20000)
            ++near;
    }
    assert_true(near < 4);
    for (unsigned i = 0; i < 64; ++i)
        assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

DEFINE_TEST(impossible_objects_are_refused, open_the_device, close_the_device)
{
    struct ibv_pd *pd = ibv_alloc_pd(device);
    expect_null(ibv_create_cq(device, 0, NULL, NULL, 0), EINVAL);
    assert_null(ibv_create_cq(device, 4, NULL, NULL, 99));
    struct ibv_cq *cq = ibv_create_cq(device, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {
            .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UC, .cap = {.max_send_wr = 1, .max_send_sge = 1}};
    expect_null(ibv_create_qp(pd, &attr), EOPNOTSUPP);
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = UINT32_MAX;
    expect_null(ibv_create_qp(pd, &attr), EINVAL);
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 0, .max_sge = 1}};
    assert_null(ibv_create_srq(pd, &srq));
    expect_null(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0), EOPNOTSUPP);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}
