/* SPDX-License-Identifier: BSD-3-Clause */
/* POSIX locks of a program on files of its regions. A process loses such locks when it closes any descriptor of the
 * file. Sharing the file with peers on the host must preserve them. */
#include "remote.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>

enum {
    page_size = 4096,
};

static int file = -1;

static struct flock lock_of(off_t byte)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

static void take_lock(off_t byte)
{
    struct flock lock = lock_of(byte);
    if (fcntl(file, F_SETLK, &lock) != 0)
        _exit(1);
}

static void take_servers_lock(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    take_lock(0);
}

static const struct server_plan locks_its_file = {.prepare = take_servers_lock, .receives = 4};

/* Returns the process that holds the byte, as seen by another process; 0 if it is not locked. */
static pid_t holder_of(off_t byte)
{
    int ends[2];
    pid_t holder = -1;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct flock lock = lock_of(byte);
        const int failed = fcntl(file, F_GETLK, &lock);
        holder = failed != 0 ? -1 : lock.l_type == F_UNLCK ? 0 : lock.l_pid;
        _exit(write(ends[1], &holder, sizeof(holder)) != sizeof(holder));
    }
    assert_int_equal(read(ends[0], &holder, sizeof(holder)), sizeof(holder));
    close(ends[0]);
    close(ends[1]);
    waitpid(pid, NULL, 0);
    return holder;
}

TEST_IN_OWN_PROCESS(peers_keep_their_locks)
{
    struct remote r;
    uint8_t *page = map_file(page_size, MAP_SHARED, &file);
    start_server(&r, &locks_its_file, page);
    meet_server(&r);
    take_lock(1);
    fill(r.pair.client.memory, 64, 3);
    /* The first request may use the connection and request the file, which arrives later. */
    for (unsigned i = 0; i < 40; ++i, usleep(5000)) {
        post_and_expect(&r.pair.client, IBV_WR_RDMA_WRITE, 1, 0, 64, &r.target, 64, IBV_WC_SUCCESS);
    }
    assert_memory_equal(page + 64, r.pair.client.memory, 64);
    assert_int_equal(holder_of(0), r.pid);
    assert_int_equal(holder_of(1), getpid());
    kill_child(r.pid);
    close(r.in);
    close_pair(&r.pair); /* unmaps the file */
    assert_int_equal(holder_of(1), getpid());
    munmap(page, page_size);
    close(file);
}
