/* SPDX-License-Identifier: BSD-3-Clause */
/* A target is killed or stopped: every call ends, its error names the cause, and no resource leaks. */
#include "support.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

static RPMEMpool *pool;
static struct resources before;
static volatile sig_atomic_t child_signals;

static void count_child(int signal_number)
{
    child_signals = child_signals + 1;
}

static int count_resources(void **state)
{
    if (make_memory(state) != 0)
        return -1;
    assert_int_equal(rpmem_close(create_pool("pool.set", &some_attributes)), 0);
    before = resources_of(getpid());
    return 0;
}

static int open_pool(void **state)
{
    signal(SIGCHLD, count_child);
    setenv("RPMEM_OP_TIMEOUT_MS", "2000", 1);
    pool = create_pool("pool.set", &some_attributes);
    return 0;
}

static int no_child_was_seen(void **state)
{
    unsetenv("RPMEM_ON_LOSS");
    unsetenv("RPMEM_STATE_FILE");
    expect_no_leak(&before);
    return child_signals == 0 ? 0 : -1;
}

/* Persists until a call fails. Returns its errno value. */
static int error_of_persist(void)
{
    for (int i = 0; i < 10000; ++i) {
        if (rpmem_persist(pool, 4096, 64, 0, 0) != 0)
            return errno;
        usleep(1000);
    }
    return 0;
}

DEFINE_TEST(a_killed_target_is_an_error, open_pool, no_child_was_seen)
{
    kill(daemon_pid(), SIGKILL);
    assert_int_equal(error_of_persist(), ECONNRESET);
    assert_non_null(strstr(rpmem_errormsg(), "rpmemd was killed by signal 9 (Killed)"));
    char byte;
    assert_fails(rpmem_persist(pool, 4096, 64, 1, 0), ECONNRESET);
    assert_fails(rpmem_drain(pool, 1, 0), ECONNRESET);
    assert_fails(rpmem_read(pool, &byte, 0, 1, 0), ECONNRESET);
    assert_fails(rpmem_set_attr(pool, &some_attributes), ECONNRESET);
    assert_fails(rpmem_close(pool), ECONNRESET);
}

/* Like a stop by an operator: the daemon closes its sessions and notifies the client. */
DEFINE_TEST(a_terminated_target_is_an_error, open_pool, no_child_was_seen)
{
    kill(daemon_pid(), SIGTERM);
    assert_int_equal(error_of_persist(), ECONNRESET);
    assert_fails(rpmem_close(pool), ECONNRESET);
    assert_int_equal(rpmem_close(must(try_to_open())), 0);
}

DEFINE_TEST(a_stopped_target_times_out, open_pool, no_child_was_seen)
{
    const pid_t stopped = stop_daemon();
    /* This call needs an action of the target. */
    assert_fails(rpmem_deep_persist(pool, 4096, 64, 0), ETIMEDOUT);
    assert_fails(rpmem_persist(pool, 4096, 64, 1, 0), ETIMEDOUT);
    assert_fails(rpmem_close(pool), ECONNRESET);
    /* The process must have ended, too. */
    expect_end_of(stopped);
}

static void *resume(void *stopped)
{
    usleep(100000);
    kill(*(pid_t *)stopped, SIGCONT);
    return NULL;
}

DEFINE_TEST(a_pause_is_no_loss, open_pool, no_child_was_seen)
{
    pid_t paused = stop_daemon();
    pthread_t resuming;
    assert_int_equal(pthread_create(&resuming, NULL, resume, &paused), 0);
    assert_int_equal(rpmem_deep_persist(pool, 4096, 64, 0), 0);
    pthread_join(resuming, NULL);
    assert_int_equal(rpmem_persist(pool, 4096, 64, 1, 0), 0);
    assert_int_equal(rpmem_close(pool), 0);
}

/* If the target were in the session of this program, the kernel would send SIGHUP to the stopped target when its parent
 * exits. */
DEFINE_TEST(the_target_has_a_session_of_its_own, open_pool, no_child_was_seen)
{
    const pid_t session = getsid(daemon_pid());
    assert_int_not_equal(session, getsid(0));
    assert_int_equal(getpgid(daemon_pid()), session);
    assert_int_equal(rpmem_close(pool), 0);
}

DEFINE_TEST(silence_is_noticed, open_pool, no_child_was_seen)
{
    stop_daemon();
    assert_int_equal(error_of_persist(), ETIMEDOUT);
    assert_fails(rpmem_close(pool), ECONNRESET);
}

DEFINE_TEST(a_degraded_program_continues, open_pool, no_child_was_seen)
{
    assert_int_equal(rpmem_close(pool), 0);
    setenv("RPMEM_ON_LOSS", "degrade", 1);
    setenv("RPMEM_STATE_FILE", in_directory("state"), 1);
    pool = create_pool("pool.set", &some_attributes);
    kill(daemon_pid(), SIGKILL);
    for (int i = 0; i < 1000 && access(in_directory("state"), F_OK) != 0; ++i) {
        assert_int_equal(rpmem_persist(pool, 4096, 64, 0, 0), 0);
        usleep(10000);
    }
    assert_int_equal(rpmem_deep_persist(pool, 4096, 64, 1), 0);
    char byte;
    assert_fails(rpmem_read(pool, &byte, 0, 1, 0), ECONNRESET);
    assert_int_equal(rpmem_close(pool), 0);
    char line[512] = "";
    FILE *const file = open_file("state");
    assert_non_null(fgets(line, sizeof(line), file));
    assert_non_null(strstr(line, "pool.set on host"));
    assert_null(fgets(line, sizeof(line), file));
    fclose(file);
}

static void expect_last_line(const char *file_name, const char *what)
{
    char line[512] = "";
    FILE *const file = open_file(file_name);
    while (fgets(line, sizeof(line), file) != NULL)
        ;
    fclose(file);
    if (strstr(line, what) == NULL)
        fail_msg("'%s' does not have '%s'", line, what);
}

/* Opens the pool, and continues after its target was killed. */
static void lose_replica(void)
{
    setenv("RPMEM_ON_LOSS", "degrade", 1);
    pool = must(try_to_open());
    kill(daemon_pid(), SIGKILL);
    assert_int_equal(rpmem_close(pool), 0);
    unsetenv("RPMEM_ON_LOSS");
}

/* A replica without which a program continued is out of date, even if it looks complete. */
DEFINE_TEST(a_lost_replica_is_rejected_until_it_is_recreated, open_pool, no_child_was_seen)
{
    setenv("RPMEM_STATE_FILE", in_directory("made/for/it"), 1);
    assert_int_equal(rpmem_close(pool), 0);
    assert_int_equal(access(in_directory("made/for/it"), F_OK), -1);
    unsigned lanes = 1;
    for (int removed = 0; removed < 2; ++removed) {
        lose_replica();
        expect_last_line("made/for/it", "replica pool.set on host: Connection reset");
        assert_refused(try_to_open(), ESTALE);
        /* The library treats a different spelling of the host as another replica. */
        pool = must(rpmem_open("host2", "pool.set", pool_memory, POOL_SIZE, &lanes, NULL));
        assert_int_equal(rpmem_close(pool), 0);
        if (removed)
            assert_int_equal(rpmem_remove("host", "pool.set", 0), 0);
        else
            assert_int_equal(unlink(in_directory("pool.part")), 0);
        pool = must(rpmem_create("host", "pool.set", pool_memory, POOL_SIZE, &lanes, &some_attributes));
        /* An incomplete replica is still out of date. */
        if (!removed)
            expect_last_line("made/for/it", "Connection reset");
        assert_int_equal(rpmem_close(pool), 0);
        expect_last_line("made/for/it", removed ? ": removed" : ": rebuilt");
        assert_int_equal(rpmem_close(must(try_to_open())), 0);
    }
}

/* The disk has space for a part of the first line. The limit is above the size of the library's log. */
DEFINE_TEST(a_line_that_was_cut_off_does_not_hide_the_next_one, open_pool, no_child_was_seen)
{
    enum {
        SIZE_BEFORE = 1 << 19,
        SPACE = 38
    };
    setenv("RPMEM_STATE_FILE", in_directory("full"), 1);
    assert_int_equal(rpmem_close(pool), 0);
    FILE *const file = fopen(in_directory("full"), "w");
    assert_non_null(file);
    for (int i = 0; i < SIZE_BEFORE; ++i)
        fputc('\n', file);
    assert_int_equal(fclose(file), 0);
    setenv("RPMEM_ON_LOSS", "degrade", 1);
    pool = must(try_to_open());
    struct rlimit unlimited;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    const struct rlimit full = {.rlim_cur = SIZE_BEFORE + SPACE, .rlim_max = unlimited.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    kill(daemon_pid(), SIGKILL);
    const int closed = rpmem_close(pool);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    assert_int_equal(closed, 0);
    assert_false(contains("full", "pool.set on host"));
    assert_true(contains("library.log", "/full': File too large"));
    lose_replica();
    assert_refused(try_to_open(), ESTALE);
}

DEFINE_TEST(a_state_file_that_cannot_be_read_is_an_error, open_pool, no_child_was_seen)
{
    assert_int_equal(rpmem_close(pool), 0);
    assert_int_equal(mkfifo(in_directory("pipe"), 0600), 0);
    /* The pipe has no other end. */
    const char *const unreadable[] = {in_directory("pipe"), getenv("RPMEM_TEST_DIR")};
    for (int i = 0; i < 2; ++i) {
        setenv("RPMEM_STATE_FILE", unreadable[i], 1);
        assert_refused(try_to_open(), EINVAL);
        assert_non_null(strstr(rpmem_errormsg(), "not a regular file"));
        /* A new pool is up to date. */
        assert_int_equal(rpmem_close(create_pool("pool.set", &some_attributes)), 0);
    }
    setenv("RPMEM_STATE_FILE", "/dev/null/lost", 1);
    assert_int_equal(rpmem_close(must(try_to_open())), 0);
}

/* The program calls no function of the library between the loss and the end. */
DEFINE_TEST(a_loss_is_reported_at_the_end, open_pool, no_child_was_seen)
{
    assert_int_equal(rpmem_close(pool), 0);
    setenv("RPMEM_ON_LOSS", "degrade", 1);
    setenv("RPMEM_STATE_FILE", in_directory("state-at-end"), 1);
    /* Once immediately, and once after the library's thread has detected the loss. */
    for (useconds_t noticed = 0; noticed <= 500000; noticed += 500000) {
        unlink(in_directory("state-at-end"));
        pool = create_pool("pool.set", &some_attributes);
        kill(daemon_pid(), SIGKILL);
        usleep(noticed);
        assert_int_equal(rpmem_close(pool), 0);
        char line[512] = "";
        FILE *const file = open_file("state-at-end");
        assert_non_null(fgets(line, sizeof(line), file));
        assert_null(fgets(line, sizeof(line), file));
        fclose(file);
    }
}

GROUP_FIXTURE(count_resources, NULL)
