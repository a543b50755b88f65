/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that polls an aligned 8-byte word never reads a torn value while a peer writes it. */
#include "fixture.h"

#include <stdatomic.h>

struct watch {
    uint8_t *memory;
    size_t words;
    atomic_bool stop;
    atomic_long torn;
    atomic_long changes;
};

static void *watch_words(void *argument)
{
    struct watch *w = argument;
    uint64_t before = 0;
    while (!atomic_load(&w->stop)) {
        for (size_t i = 0; i < w->words; ++i) {
            uint64_t value = __atomic_load_n((uint64_t *)(void *)(w->memory + 8 * i), __ATOMIC_ACQUIRE);
            if ((uint32_t)value != (uint32_t)(value >> 32))
                atomic_fetch_add(&w->torn, 1);
            if (i == 0 && value != before)
                atomic_fetch_add(&w->changes, 1);
            before = i == 0 ? value : before;
        }
    }
    return NULL;
}

/* Writes values with equal halves, and checks that no watched word ever had different halves. */
static void write_under_watch(size_t local_offset, size_t length, unsigned rounds)
{
    OPEN_PAIR(p, &(struct options){.size = 1u << 20});
    uint64_t *aligned = NULL;
    struct ibv_mr *mr = NULL;
    assert_int_equal(posix_memalign((void **)&aligned, 4096, 1u << 20), 0);
    memset(aligned, 0, 1u << 20);
    mr = create_mr(p.server.pd, aligned, 1u << 20, everything);
    const struct side target = {.memory = (uint8_t *)aligned, .mr = mr};
    struct watch w = {.memory = (uint8_t *)aligned, .words = length / 8};
    pthread_t watcher;
    assert_int_equal(pthread_create(&watcher, NULL, watch_words, &w), 0);
    unsigned round = 0;
    while (round < rounds || atomic_load(&w.changes) == 0) {
        ++round;
        uint32_t half = round;
        for (size_t i = 0; i < length; i += 4)
            memcpy(p.client.memory + local_offset + i, &half, sizeof(half));
        post_and_expect(&p.client, IBV_WR_RDMA_WRITE, round, local_offset, length, &target, 0, IBV_WC_SUCCESS);
    }
    atomic_store(&w.stop, true);
    pthread_join(watcher, NULL);
    assert_true(atomic_load(&w.changes) > 0);
    assert_int_equal(atomic_load(&w.torn), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    free(aligned);
}

DEFINE_TEST(a_written_word_is_never_torn, NULL, NULL)
{
    write_under_watch(0, 8, 3000);
    write_under_watch(0, 64, 3000);
}

DEFINE_TEST(words_of_a_large_write_from_an_odd_source_are_never_torn, NULL, NULL)
{
    write_under_watch(3, 600 * 1024, 60);
}
