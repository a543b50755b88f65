/* SPDX-License-Identifier: BSD-3-Clause */
/* The only process of another host is stopped, and then killed: nothing of the device can answer for it.
 * usage: killed_host_test ADDRESS COMMAND: the address of the other host, and `nsenter -t PID`, which enters it. */
#include "remote.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

static const char *network;

static void enter_network(void)
{
    const int fd = open(network, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(setns(fd, CLONE_NEWNET), 0);
    close(fd);
}

static struct server_plan sleeps = {.prepare = enter_network};

static void expect_written(struct remote *r, uint64_t wr_id)
{
    post_and_expect(&r->pair.client, IBV_WR_RDMA_WRITE, wr_id, 0, 8, &r->target, 0, IBV_WC_SUCCESS);
}

TEST_IN_OWN_PROCESS(an_idle_peer_notices_it)
{
    MEET_SERVER(r, &sleeps, NULL);
    struct side *c = &r.pair.client;
    expect_written(&r, 1);
    suspend_server(&r);
    usleep(1500000); /* several probes of the client */
    expect_no_event(c->channel);
    assert_int_equal(kill(r.pid, SIGCONT), 0);
    expect_written(&r, 2);
    assert_int_equal(kill(r.pid, SIGKILL), 0);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(rdma_disconnect(c->id), 0);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
}

int main(int count, char **arguments)
{
    static char path[64];
    int pid = 0;
    if (count != 3 || sscanf(arguments[2], "nsenter -t %d", &pid) != 1)
        return 2;
    snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
    network = path;
    sleeps.address = arguments[1];
    return run_registered_tests();
}
