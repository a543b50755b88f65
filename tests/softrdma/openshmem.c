// SPDX-License-Identifier: BSD-3-Clause
// A program for OpenSHMEM. usage: openshmem [kill]
// Every element of the others' symmetric memory is put, got and counted up, and compared. With `kill` the last one ends
// itself with SIGKILL in the middle.
#include <shmem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    elements = 1 << 16,
    rounds = 3
};

static int me, size;

static void require(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%d: %s\n", me, what);
    shmem_global_exit(1);
}

static long value_of(int from, int to, int round, int at)
{
    return from * 1000003L + to * 7919L + round * 31L + at;
}

int main(int argc, char **argv)
{
    shmem_init();
    me = shmem_my_pe();
    size = shmem_n_pes();
    long *inbox = shmem_malloc(sizeof(long) * elements * (size_t)size);
    long *counter = shmem_malloc(sizeof(long));
    long *out = malloc(sizeof(long) * elements), *back = malloc(sizeof(long) * elements);
    require(inbox != NULL && counter != NULL && out != NULL && back != NULL, "out of memory");
    *counter = 0;
    shmem_barrier_all();
    for (int round = 0; round < rounds; ++round) {
        for (int to = 0; to < size; ++to) {
            for (int i = 0; i < elements; ++i)
                out[i] = value_of(me, to, round, i);
            shmem_long_put(inbox + (size_t)me * elements, out, elements, to);
            shmem_long_atomic_add(counter, me + 1, to);
            shmem_quiet();
            memset(back, 0, sizeof(long) * elements);
            shmem_long_get(back, inbox + (size_t)me * elements, elements, to);
            require(memcmp(out, back, sizeof(long) * elements) == 0, "get returned other data than put");
        }
        shmem_barrier_all();
        for (int from = 0; from < size; ++from) {
            for (int i = 0; i < elements; ++i)
                require(inbox[(size_t)from * elements + (size_t)i] == value_of(from, me, round, i),
                        "an element is wrong");
        }
        require(*counter == (long)(round + 1) * size * (size + 1) / 2, "the counter is wrong");
        if (argc > 1 && strcmp(argv[1], "kill") == 0 && me == size - 1)
            kill(getpid(), SIGKILL);
        shmem_barrier_all();
    }
    if (me == 0)
        printf("%d ranks have agreed\n", size);
    shmem_finalize();
    return 0;
}
