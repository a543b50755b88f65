// SPDX-License-Identifier: BSD-3-Clause
#include "threads.h"

#include <pthread.h>

struct rpma_mr_local *mr;
struct rpma_mr_remote *remote;

static pthread_barrier_t start;
static unsigned wrong;

void expect(bool right)
{
    if (!right)
        __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

int begin_threads_test(void **state)
{
    begin_conn_test(state);
    wrong = 0;
    mr = make_mr(peer);
    remote = make_remote(0x1000, MR_SIZE, 0xff);
    return 0;
}

int end_threads_test(void **state)
{
    drop_remote(remote);
    drop_mr(mr);
    return end_conn_test(state);
}

struct work {
    void (*run)(unsigned index);
    unsigned index;
};

static void *run_work(void *argument)
{
    const struct work *const work = argument;
    pthread_barrier_wait(&start);
    work->run(work->index);
    return NULL;
}

void run_together(void (*const runs[THREADS])(unsigned index))
{
    pthread_t threads[THREADS];
    struct work work[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; ++i) {
        work[i].run = runs[i];
        work[i].index = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_work, &work[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; ++i)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    assert_int_equal(wrong, 0);
}

void run_all(void (*run)(unsigned index))
{
    void (*const runs[THREADS])(unsigned) = {run, run, run, run};
    run_together(runs);
}
