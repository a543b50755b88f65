/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures the one-way time of a message between two ranks, in nanoseconds. programs_table.py compiles this program.
 * usage: mpirun -n 2 ping_pong SIZE... */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    warm_up = 200,
    rounds = 2000,
};

static void exchange(char *buffer, int size, int rank, int times)
{
    for (int i = 0; i < times; ++i) {
        if (rank == 0)
            MPI_Send(buffer, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(buffer, size, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(buffer, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 1; i < argc; ++i) {
        const int size = atoi(argv[i]);
        char *buffer = calloc(1, (size_t)size);
        exchange(buffer, size, rank, warm_up);
        const double begin = MPI_Wtime();
        exchange(buffer, size, rank, rounds);
        if (rank == 0)
            printf("%d %.0f\n", size, (MPI_Wtime() - begin) * 1e9 / rounds / 2);
        free(buffer);
    }
    return MPI_Finalize();
}
