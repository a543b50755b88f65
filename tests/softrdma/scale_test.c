/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum {
    rounds = 300,
};

/* Pacing would only slow down connections within a host. Over RoCE none of them has a TCP connection. */
PAIR_TEST(connections_within_a_host_are_not_paced, connected)
{
    unsigned ends = 0;
    DIR *descriptors = opendir("/proc/self/fd");
    assert_non_null(descriptors);
    for (const struct dirent *entry; (entry = readdir(descriptors)) != NULL;) {
        const int fd = atoi(entry->d_name); /* 0 for "." and ".." */
        struct sockaddr_storage peer;
        char algorithm[16] = "";
        if (getpeername(fd, (struct sockaddr *)&peer, &(socklen_t){sizeof(peer)}) != 0 ||
                getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, algorithm, &(socklen_t){sizeof(algorithm)}) != 0)
            continue;
        assert_string_equal(algorithm, "reno");
        ++ends;
    }
    closedir(descriptors);
    assert_int_equal(ends, is_over_roce() ? 0 : 2);
}

struct churn {
    struct pair *pair;
    atomic_bool stop;
};

static void *register_and_deregister(void *argument)
{
    struct churn *churn = argument;
    while (!atomic_load(&churn->stop)) {
        uint8_t *memory = malloc(4096);
        struct ibv_mr *mr = create_mr(churn->pair->server.pd, memory, 4096, everything);
        atomic_thread_fence(memory_order_seq_cst);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        free(memory);
    }
    return NULL;
}

PAIR_TEST(registration_works_during_traffic, connected)
{
    struct churn churn = {.pair = p};
    pthread_t ids[2];
    for (size_t i = 0; i < 2; ++i)
        assert_int_equal(pthread_create(&ids[i], NULL, register_and_deregister, &churn), 0);
    for (unsigned i = 0; i < rounds; ++i) {
        post_and_expect(&p->client, IBV_WR_RDMA_WRITE, i, 0, 4096, &p->server, 0, IBV_WC_SUCCESS);
    }
    atomic_store(&churn.stop, true);
    for (size_t i = 0; i < 2; ++i)
        pthread_join(ids[i], NULL);
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Keys are unique, and peers can use each of them. Deregistered regions free their slots. */
PAIR_TEST(many_regions_can_be_registered, connected)
{
    enum {
        many = 70000, /* more than the capacity of the table that peers share */
        step = 997,
    };
    struct ibv_mr **regions = calloc(many, sizeof(struct ibv_mr *));
    uint32_t *keys = calloc(many, sizeof(uint32_t));
    for (size_t round = 0; round < 2; ++round) {
        for (size_t i = 0; i < many; ++i) {
            if (regions[i] == NULL)
                regions[i] = create_mr(p->server.pd, p->server.memory, 8 + i % 64, everything);
            keys[i] = regions[i]->rkey;
        }
        qsort(keys, many, sizeof(*keys), by_number);
        for (size_t i = 1; i < many; ++i)
            assert_int_not_equal(keys[i - 1], keys[i]);
        for (size_t i = 0; i < many; i += step) {
            const struct side target = {.memory = p->server.memory, .mr = regions[i]};
            memcpy(p->client.memory, &i, sizeof(i));
            post_and_expect(&p->client, IBV_WR_RDMA_WRITE, i, 0, 8, &target, i % 64, IBV_WC_SUCCESS);
            assert_memory_equal(p->server.memory + i % 64, &i, sizeof(i));
        }
        for (size_t i = 0; i < many; ++i) {
            if (round == 0 && i % 3 != 0)
                continue;
            assert_int_equal(ibv_dereg_mr(regions[i]), 0);
            regions[i] = NULL;
        }
    }
    free(keys);
    free(regions);
}

static void take_memory_away(struct side *s)
{
    assert_int_equal(ibv_dereg_mr(s->mr), 0);
    s->mr = NULL;
    free(s->memory);
    s->memory = NULL;
}

/* Requests from `first` up to `end` succeed, until one is rejected with `refusal`. */
static void expect_success_or_refusal(struct ibv_cq *cq, uint64_t first, uint64_t end, enum ibv_wc_status refusal)
{
    bool refused = false;
    for (uint64_t n = first; n < end; ++n) {
        const struct ibv_wc wc = next_completion(cq);
        assert_int_equal(wc.wr_id, n);
        assert_int_equal(wc.status, refused                       ? IBV_WC_WR_FLUSH_ERR
                                    : wc.status == IBV_WC_SUCCESS ? IBV_WC_SUCCESS
                                                                  : refusal);
        refused = refused || wc.status != IBV_WC_SUCCESS;
    }
}

/* The region may be deregistered at any time. Each write succeeds or is rejected, and none accesses freed memory. */
TEST(a_region_can_be_deregistered_while_it_is_written)
{
    for (unsigned i = 0; i < 30; ++i) {
        OPEN_PAIR(p, &(struct options){.size = 256 * 1024});
        for (uint64_t n = 0; n < 4; ++n)
            assert_int_equal(post(&p.client, IBV_WR_RDMA_WRITE, n, 0, p.client.size, &p.server, 0, 0), 0);
        take_memory_away(&p.server);
        expect_success_or_refusal(p.client.cq, 0, 4, IBV_WC_REM_ACCESS_ERR);
    }
}

/* Deregisters memory that receives responses. Each READ completes in full or is rejected. */
TEST(memory_can_be_deregistered_while_responses_arrive)
{
    enum {
        size = 2 << 20,
        requests = 4
    };
    for (unsigned i = 0; i < 30; ++i) {
        OPEN_PAIR(p, &(struct options){.size = size});
        for (uint64_t n = 0; n < requests; ++n)
            assert_int_equal(post(&p.client, IBV_WR_RDMA_READ, n, 0, size, &p.server, 0, 0), 0);
        if (i % 3 != 0)
            expect_completion(p.client.cq, 0, IBV_WC_SUCCESS);
        take_memory_away(&p.client);
        expect_success_or_refusal(p.client.cq, i % 3 != 0, requests, IBV_WC_LOC_PROT_ERR);
    }
}
