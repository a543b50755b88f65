// SPDX-License-Identifier: BSD-3-Clause
#include "signals.h"
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define INTERVAL_US 5000
#define LATER_US 100000

static void ignore(int number) {}

static void *interrupt(void *argument)
{
    const pthread_t *thread = argument;
    for (;;) {
        usleep(INTERVAL_US);
        pthread_kill(*thread, SIGUSR1);
    }
    return NULL;
}

void begin_interrupting(void)
{
    static pthread_t caller;
    pthread_t interrupter;
    struct sigaction action = {.sa_handler = ignore};
    caller = pthread_self();
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(pthread_create(&interrupter, NULL, interrupt, &caller), 0);
    pthread_detach(interrupter);
}

struct later {
    void (*function)(void *argument);
    void *argument;
};

static void *wait_and_run(void *argument)
{
    struct later *later = argument;
    usleep(LATER_US);
    later->function(later->argument);
    free(later);
    return NULL;
}

void run_later(void (*function)(void *argument), void *argument)
{
    pthread_t thread;
    struct later *later = malloc(sizeof(*later));
    assert_non_null(later);
    *later = (struct later){function, argument};
    assert_int_equal(pthread_create(&thread, NULL, wait_and_run, later), 0);
    pthread_detach(thread);
}
