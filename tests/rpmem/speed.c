/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints what calls of librpmem take on this machine, as medians, and as multiples of a plain blocking request and
 * answer over TCP in the same run. Not a test: docs/replication.md describes the comparison.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <librpmem.h>

enum {
    POOL_SIZE = 8 << 20,
    PAGE = 4096,
    ROUNDS = 20000,
    PAGES = 1000, /* pages that are written for the first time, starting at HALF */
    HALF = POOL_SIZE / 2,
    BATCH = 32,
    SESSIONS = 9,
    BIG = 1 << 20,
};

static double times[ROUNDS];
static char *memory;
static RPMEMpool *pool;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(size_t count)
{
    qsort(times, count, sizeof(times[0]), compare);
    return times[count / 2];
}

static void check(int failed, const char *call, const char *reason)
{
    if (!failed)
        return;
    fprintf(stderr, "%s: %s\n", call, reason);
    exit(1);
}

static void must(int result)
{
    check(result != 0, "librpmem", rpmem_errormsg());
}

static void transfer(int fd, char *bytes, size_t size, int writes)
{
    while (size > 0) {
        const ssize_t n = writes ? write(fd, bytes, size) : read(fd, bytes, size);
        check(n <= 0, "the plain connection", strerror(errno));
        bytes += n;
        size -= (size_t)n;
    }
}

static void answer_requests(int listener, char *bytes, size_t size)
{
    const int one = 1, fd = accept(listener, NULL, NULL);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    for (int i = 0; i < ROUNDS; ++i) {
        transfer(fd, bytes, size, 0);
        transfer(fd, bytes, 8, 1);
    }
    _exit(0);
}

/* Duration of a request of that size and a response of 8 bytes, by blocking calls between two processes. */
static double plain(size_t size)
{
    static char bytes[PAGE];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    const int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
                    getsockname(listener, (struct sockaddr *)&address, &length) != 0,
            "listen", strerror(errno));
    const pid_t other = fork();
    if (other == 0)
        answer_requests(listener, bytes, size);
    check(connect(fd, (struct sockaddr *)&address, length) != 0, "connect", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    for (int i = 0; i < ROUNDS; ++i) {
        const double start = now_us();
        transfer(fd, bytes, size, 1);
        transfer(fd, bytes, 8, 0);
        times[i] = now_us() - start;
    }
    waitpid(other, NULL, 0);
    close(fd);
    close(listener);
    return median(ROUNDS);
}

static double to_open(int create)
{
    unsigned lanes = 1;
    const double start = now_us();
    pool = create ? rpmem_create("local:", "plain.set", memory, POOL_SIZE, &lanes, NULL)
                  : rpmem_open("local:", "plain.set", memory, POOL_SIZE, &lanes, NULL);
    check(pool == NULL, "librpmem", rpmem_errormsg());
    return now_us() - start;
}

static double to_flush(size_t size)
{
    for (size_t i = 0; i < ROUNDS / BATCH; ++i) {
        const double start = now_us();
        for (size_t j = 0; j < BATCH; ++j)
            must(rpmem_flush(pool, (i * BATCH + j) * size % HALF, size, 0, 0));
        must(rpmem_drain(pool, 0, 0));
        times[i] = (now_us() - start) / BATCH;
    }
    return median(ROUNDS / BATCH);
}

enum call {
    PERSIST,
    READ,
    DEEP_PERSIST
};

/* Duration of one call of successive blocks, starting at an offset, within half of the pool. */
static double of_call(enum call call, size_t from, size_t step, size_t size, size_t count)
{
    static char copy[BIG];
    for (size_t i = 0; i < count; ++i) {
        const size_t offset = from + i * step % HALF;
        const double start = now_us();
        must(call == PERSIST   ? rpmem_persist(pool, offset, size, 0, 0)
                : call == READ ? rpmem_read(pool, copy, offset, size, 0)
                               : rpmem_deep_persist(pool, offset, size, 0));
        times[i] = now_us() - start;
    }
    return median(count);
}

static void show(const char *what, double us, double unit)
{
    printf("%-32s %10.2f us %7.2f x\n", what, us, us / unit);
}

int main(void)
{
    memory = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    check(memory == MAP_FAILED, "mmap", strerror(errno));
    const double unit = plain(64);
    show("plain 64 B", unit, unit);
    show("plain 4 KiB", plain(PAGE), unit);
    show("create", to_open(1), unit);
    double closes[SESSIONS], opens[SESSIONS];
    for (int i = 0; i < SESSIONS; ++i) {
        const double start = now_us();
        must(rpmem_close(pool));
        closes[i] = now_us() - start;
        opens[i] = to_open(0);
    }
    memcpy(times, closes, sizeof(closes));
    show("close", median(SESSIONS), unit);
    memcpy(times, opens, sizeof(opens));
    show("open", median(SESSIONS), unit);
    show("persist 64 B", of_call(PERSIST, 0, 64, 64, ROUNDS), unit);
    show("persist 4 KiB", of_call(PERSIST, 0, PAGE, PAGE, ROUNDS), unit);
    show("persist 64 B of a new page", of_call(PERSIST, HALF, PAGE, 64, PAGES), unit);
    show("flush x 32 + drain, each 64 B", to_flush(64), unit);
    show("deep persist 64 B", of_call(DEEP_PERSIST, 0, 64, 64, ROUNDS / 4), unit);
    show("read 64 B", of_call(READ, 0, 64, 64, ROUNDS), unit);
    show("read 4 KiB", of_call(READ, 0, PAGE, PAGE, ROUNDS), unit);
    show("read 1 MiB", of_call(READ, 0, BIG, BIG, ROUNDS / 40), unit);
    must(rpmem_close(pool));
    return 0;
}
