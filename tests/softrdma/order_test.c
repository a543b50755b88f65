/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that reach a receiver on the same host through memory, among others that arrive over the network. */
#include "remote.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
    memory_size = 4096,
    message_size = 64,
    ahead = 8, /* receives */
    messages = 2000,
};

/* Every second receive is in a file, and the receiver stores its message. The others need no memory, and the sender
 * delivers their messages. */
static void post_numbered_receive(struct side *s, uint64_t number)
{
    if (number % 2 == 0)
        assert_int_equal(post_receive(s, number, 0, message_size), 0);
    else
        assert_int_equal(post_empty_receive(s->qp, number), 0);
}

static void expect_messages_in_order(struct pair *p)
{
    struct side *s = &p->server;
    struct ibv_wc wc;
    for (uint64_t number = 0; number < ahead; ++number)
        post_numbered_receive(s, number);
    for (uint64_t number = 0;; ++number) {
        while (ibv_poll_cq(s->cq, 1, &wc) == 0)
            continue;
        if (wc.status != IBV_WC_SUCCESS || wc.wr_id != number) {
            fprintf(stderr, "message %llu came as number %llu\n", (unsigned long long)wc.wr_id,
                    (unsigned long long)number);
            abort();
        }
        post_numbered_receive(s, number + ahead);
    }
}

static const struct server_plan keeps_order = {.act = expect_messages_in_order};

TEST_IN_OWN_PROCESS(messages_of_both_directions_keep_their_order)
{
    MEET_SERVER(r, &keeps_order, map_file(memory_size, MAP_SHARED, NULL));
    struct side *c = &r.pair.client;
    for (uint64_t number = 0; number < messages; ++number) {
        struct ibv_wc wc;
        assert_int_equal(post(c, IBV_WR_SEND, number, 0, number % 2 == 0 ? message_size : 0, NULL, 0, 0), 0);
        while (ibv_poll_cq(c->cq, 1, &wc) == 0)
            continue;
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
    }
    assert_int_equal(waitpid(r.pid, NULL, WNOHANG), 0); /* the process is still waiting */
}
