// SPDX-License-Identifier: BSD-3-Clause
// A program for Open MPI. usage: message_passing [kill]
// Every rank exchanges messages of all sizes with every other one, gathers, reduces, and writes into the windows of the
// others. With `kill` the last rank ends itself with SIGKILL in the middle.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    longest = 1 << 22,
    rounds = 3
};

static int rank, size;

static void require(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char byte_of(int from, int to, int length, int at)
{
    return (unsigned char)(from * 31 + to * 17 + length * 7 + at * 13 + (at >> 8));
}

static void exchange(int length)
{
    unsigned char *out = malloc((size_t)length + 1), *in = malloc((size_t)length + 1);
    for (int distance = 1; distance < size; ++distance) {
        const int to = (rank + distance) % size, from = (rank + size - distance) % size;
        for (int i = 0; i < length; ++i)
            out[i] = byte_of(rank, to, length, i);
        memset(in, 0, (size_t)length + 1);
        MPI_Status status;
        MPI_Sendrecv(out, length, MPI_BYTE, to, length, in, length, MPI_BYTE, from, length, MPI_COMM_WORLD, &status);
        int count = -1;
        MPI_Get_count(&status, MPI_BYTE, &count);
        require(count == length, "a message has another length");
        for (int i = 0; i < length; ++i)
            require(in[i] == byte_of(from, rank, length, i), "a message has another byte");
    }
    free(out);
    free(in);
}

static void reduce(void)
{
    enum {
        elements = 10000
    };
    static long mine[elements], all[elements];
    for (int i = 0; i < elements; ++i)
        mine[i] = (long)(rank + 1) * i;
    MPI_Allreduce(mine, all, elements, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < elements; ++i)
        require(all[i] == (long)size * (size + 1) / 2 * i, "a sum is wrong");
}

static void write_windows(void)
{
    long *window = NULL;
    MPI_Win shared;
    MPI_Win_allocate((MPI_Aint)sizeof(long) * size, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window, &shared);
    MPI_Win_fence(0, shared);
    const long value = 1000 + rank;
    for (int to = 0; to < size; ++to)
        MPI_Put(&value, 1, MPI_LONG, to, rank, 1, MPI_LONG, shared);
    MPI_Win_fence(0, shared);
    for (int from = 0; from < size; ++from)
        require(window[from] == 1000 + from, "window: written value is missing");
    MPI_Win_free(&shared);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < rounds; ++round) {
        for (int length = 0; length <= longest; length = length * 4 + 1)
            exchange(length);
        reduce();
        if (argc > 1 && strcmp(argv[1], "kill") == 0 && rank == size - 1)
            kill(getpid(), SIGKILL);
        write_windows();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks have agreed\n", size);
    MPI_Finalize();
    return 0;
}
