/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated power cut. Each case runs in a child process that the cut kills; the test then checks the file. */
#include "native.h"

#include <stdio.h>
#include <sys/mman.h>

enum {
    line_size = 64,
    lines = 64,
    file_size = lines * line_size,
    cut_status = 137,
    all_access = everything | IBV_ACCESS_REMOTE_ATOMIC | access_flush_global | access_flush_persistent,
};

static uint8_t *file;

static void open_on_file(struct pair *p)
{
    open_pair(p, &(struct options){.size = file_size,
                         .server_memory = file,
                         .server_access = all_access,
                         .send_ops = IBV_QP_EX_WITH_RDMA_WRITE | send_op_flush});
    memset(p->client.memory, 0xaa, file_size);
}

static void write_range(struct pair *p, size_t offset, size_t length)
{
    (void)post(&p->client, IBV_WR_RDMA_WRITE, 1, offset, length, &p->server, offset, 0);
    (void)next_completion(p->client.cq);
}

static void write_everything(struct pair *p)
{
    write_range(p, 0, file_size);
}

static void write_and_flush_half(struct pair *p)
{
    write_range(p, 0, file_size);
    (void)post_flush(&p->client, 2, &p->server, 0, file_size / 2, flush_persistent, flush_range);
    (void)next_completion(p->client.cq);
    write_range(p, file_size - 8, 8);
}

static void write_flush_and_read(struct pair *p)
{
    write_range(p, 0, file_size);
    (void)post(&p->client, IBV_WR_RDMA_READ, 2, 0, 8, &p->server, 0, 0);
    (void)next_completion(p->client.cq);
    write_range(p, 0, line_size);
}

static void write_and_sync_half(struct pair *p)
{
    write_range(p, 0, file_size);
    if (msync(file, file_size / 2, MS_SYNC) == 0)
        write_range(p, file_size - 8, 8);
}

/* Neither call guarantees durability: MS_ASYNC returns before the write-back, and an unaligned address is rejected. */
static void write_and_sync_incompletely(struct pair *p)
{
    write_range(p, 0, file_size);
    if (msync(file, file_size, MS_ASYNC) == 0 && msync(file + 1, file_size - 1, MS_SYNC) != 0)
        write_range(p, file_size - 8, 8);
}

static void write_one_word(struct pair *p)
{
    memset(file, 0x55, line_size); /* a store by the program, which the device does not track */
    write_range(p, 8, 8);
}

/* Returns the exit status of a child that runs `operations` with the setting `power_cut`. Zeroes the file first. */
static int run_until_cut(void (*operations)(struct pair *), const char *power_cut)
{
    memset(file, 0, file_size);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv("SOFTRDMA_POWERCUT", power_cut, 1);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        struct pair p;
        open_on_file(&p);
        operations(&p);
        _exit(0);
    }
    return exit_code_of(child);
}

struct fates {
    unsigned lost;
    unsigned torn;
    unsigned kept;
};

static struct fates fates_of(size_t from, size_t to)
{
    struct fates fates = {0};
    for (size_t at = from; at < to; at += line_size) {
        unsigned kept = 0;
        for (size_t word = 0; word < line_size; word += 8) {
            for (size_t i = 1; i < 8; ++i)
                assert_int_equal(file[at + word + i], file[at + word]); /* words are not torn */
            kept += file[at + word] == 0xaa;
        }
        fates.lost += kept == 0;
        fates.torn += kept > 0 && kept < line_size / 8;
        fates.kept += kept == line_size / 8;
    }
    return fates;
}

/* Runs the operations. The power is cut after that number of operations. */
static void cut_after(unsigned count, unsigned seed, void (*operations)(struct pair *))
{
    char setting[64];
    snprintf(setting, sizeof(setting), "after:%u,seed:%u", count, seed);
    assert_int_equal(run_until_cut(operations, setting), cut_status);
}

TEST(unflushed_lines_are_lost_torn_or_kept)
{
    cut_after(1, 1, write_everything);
    const struct fates fates = fates_of(0, file_size);
    assert_true(fates.lost > lines / 8 && fates.torn > lines / 8 && fates.kept > lines / 8);
}

TEST(the_seed_decides)
{
    uint8_t first[file_size];
    cut_after(1, 7, write_everything);
    memcpy(first, file, file_size);
    cut_after(1, 7, write_everything);
    assert_memory_equal(file, first, file_size);
    assert_int_equal(run_until_cut(write_everything, "after:1|seed:8"), cut_status);
    assert_memory_not_equal(file, first, file_size);
}

static void expect_only_first_half(unsigned count, void (*operations)(struct pair *))
{
    for (unsigned seed = 1; seed <= 20; ++seed) {
        cut_after(count, seed, operations);
        assert_int_equal(fates_of(0, file_size / 2).kept, lines / 2);
        assert_true(fates_of(file_size / 2, file_size).kept < lines / 2);
    }
}

TEST(flushed_lines_are_never_touched)
{
    expect_only_first_half(3, write_and_flush_half);
}

TEST(a_read_flushes_too)
{
    for (unsigned seed = 1; seed <= 20; ++seed) {
        cut_after(3, seed, write_flush_and_read);
        assert_int_equal(fates_of(0, file_size).kept, lines);
    }
}

TEST(data_synced_by_the_program_is_not_lost)
{
    expect_only_first_half(2, write_and_sync_half);
}

TEST(an_incomplete_sync_makes_no_data_durable)
{
    for (unsigned seed = 1; seed <= 20; ++seed) {
        cut_after(2, seed, write_and_sync_incompletely);
        assert_true(fates_of(0, file_size).kept < lines / 2);
    }
}

TEST(stores_of_the_program_are_not_lost)
{
    for (unsigned seed = 1; seed <= 20; ++seed) {
        cut_after(1, seed, write_one_word);
        for (size_t i = 0; i < line_size; ++i)
            assert_true(file[i] == 0x55 || (file[i] == 0xaa && i / 8 == 1));
    }
}

TEST(without_an_operation_number_the_power_stays_on)
{
    assert_int_equal(run_until_cut(write_everything, "armed"), 0);
    assert_int_equal(run_until_cut(write_everything, "after:2,seed:1"), 0);
    assert_int_equal(fates_of(0, file_size).kept, lines);
}

TEST(an_invalid_setting_ends_the_program)
{
    const char *const settings[] = {"after:0", "after:x", "after:", "sometimes", "after:1,,seed:1", "seed:-1"};
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); ++i) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            setenv("SOFTRDMA_POWERCUT", settings[i], 1);
            /* The list stays referenced, so that the leak detector does not report it when the child exits. */
            static struct ibv_device **volatile list;
            list = ibv_get_device_list(NULL);
            (void)ibv_open_device(list[0]);
            _exit(1);
        }
        assert_int_equal(exit_code_of(child), 2);
    }
}

int main(void)
{
    const int fd = memfd_create("power_cut", 0);
    if (fd >= 0 && ftruncate(fd, file_size) == 0)
        file = mmap(NULL, file_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file == NULL || file == MAP_FAILED) {
        perror("cannot map a file");
        return 77;
    }
    return run_registered_tests();
}
