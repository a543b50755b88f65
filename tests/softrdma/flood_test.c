/* SPDX-License-Identifier: BSD-3-Clause */
/* A program without the device sends invalid packets of RoCE to the queue pairs of a connection and of datagrams, from
 * the address of the peer and from another one. The peers exchange data at the same time. */
#include "datagrams.h"

#include <arpa/inet.h>
#include <sys/socket.h>

enum {
    packets = 200000,
    batch = 500, /* packets between two requests of the connection: the receive buffer has space for them */
    target = 128,
    write_size = 12 + 16 + 8,
    datagram_size = 12 + 8 + 8,
};

/* A sender's socket and address. */
struct source {
    int fd;
    struct sockaddr_in own;
};

static struct source open_source(const char *address)
{
    struct source s;
    s.fd = open_udp(address, &s.own);
    return s;
}

static void send_bytes(const struct source *s, const uint8_t *bytes, size_t size)
{
    const struct sockaddr_in to = {
            .sin_family = AF_INET, .sin_port = htons(4791), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(sendto(s->fd, bytes, size, 0, (const struct sockaddr *)&to, sizeof(to)), (ssize_t)size);
}

static void put_word(uint8_t *at, uint32_t value)
{
    const uint32_t big_endian = htonl(value);
    memcpy(at, &big_endian, sizeof(big_endian));
}

/* A WRITE of eight bytes 0xff to the memory of the server. */
static void put_write(uint8_t *bytes, const struct pair *p, uint32_t psn)
{
    const uint64_t address = (uintptr_t)p->server.memory + target;
    memset(bytes, 0xff, write_size);
    put_word(bytes, 0x0a00ffff);
    put_word(bytes + 4, p->server.qp->qp_num);
    put_word(bytes + 8, psn & 0xffffff);
    put_word(bytes + 12, (uint32_t)(address >> 32));
    put_word(bytes + 16, (uint32_t)address);
    put_word(bytes + 20, p->server.mr->rkey);
    put_word(bytes + 24, 8);
}

static void put_datagram(uint8_t *bytes, uint32_t qpn, uint32_t key)
{
    memset(bytes, 0xff, datagram_size);
    put_word(bytes, 0x6400ffff);
    put_word(bytes + 4, qpn);
    put_word(bytes + 8, 0);
    put_word(bytes + 12, key);
    put_word(bytes + 16, 0x123456);
}

/* Sends one invalid packet. `psn` is the one that the server expects next. */
static void send_invalid(unsigned kind, const struct source *peer, const struct source *stranger, const struct pair *p,
        uint32_t datagram_qpn, uint32_t psn, unsigned *seed)
{
    uint8_t bytes[512];
    size_t size = write_size;
    const struct source *from = peer;
    put_write(bytes, p, psn);
    switch (kind % 8) {
    case 0: /* random bytes for the queue pair */
        size = 12 + (size_t)rand_r(seed) % 300;
        for (size_t i = 0; i < size; ++i)
            bytes[i] = (uint8_t)rand_r(seed);
        put_word(bytes + 4, p->server.qp->qp_num);
        send_bytes(from, bytes, size);
        return;
    case 1: /* invariant CRC */
        size = with_crc(bytes, size, &from->own);
        bytes[size - 1 - (size_t)rand_r(seed) % 4] ^= (uint8_t)(1 + rand_r(seed) % 255);
        send_bytes(from, bytes, size);
        return;
    case 2: /* queue pair */
        put_word(bytes + 4, p->server.qp->qp_num ^ 0x400u);
        break;
    case 3: /* P_Key */
        put_word(bytes, 0x0a000000u | (uint32_t)(rand_r(seed) % 0xffff));
        break;
    case 4: /* PSN far ahead */
        put_write(bytes, p, psn + 0x200000u + (uint32_t)rand_r(seed) % 0x200000u);
        break;
    case 5: /* PSN of an earlier request */
        put_write(bytes, p, psn - 0x200000u - (uint32_t)rand_r(seed) % 0x200000u);
        break;
    case 6: /* address, with a valid packet */
        from = stranger;
        break;
    default: /* Q_Key */
        put_datagram(bytes, datagram_qpn, qkey ^ (1u << (unsigned)rand_r(seed) % 32));
        size = datagram_size;
    }
    send_bytes(from, bytes, with_crc(bytes, size, &from->own));
}

PAIR_TEST(invalid_packets_change_nothing, connected)
{
    static uint8_t expected[4096];
    device = p->server.id->verbs;
    struct ibv_qp *datagrams = create_plain_qp(p->server.pd, p->server.cq, IBV_QPT_UD, 1);
    to_rts(datagrams);
    struct side receiver = p->server;
    receiver.qp = datagrams;
    assert_int_equal(post_receive(&receiver, 77, 2048, 1024), 0);
    fill(p->server.memory, sizeof(expected), 5);
    memcpy(expected, p->server.memory, sizeof(expected));
    const struct source peer = open_source("127.0.0.1"), stranger = open_source("127.0.0.9");
    unsigned seed = 7;
    uint32_t psn = query(p->server.qp, IBV_QP_RQ_PSN).rq_psn;
    for (unsigned i = 0; i < packets; ++i) {
        send_invalid(i, &peer, &stranger, p, datagrams->qp_num, psn, &seed);
        if (i % batch != batch - 1)
            continue;
        fill(p->client.memory, 64, i);
        memcpy(expected, p->client.memory, 64);
        post_and_expect(&p->client, IBV_WR_RDMA_WRITE, i, 0, 64, &p->server, 0, IBV_WC_SUCCESS);
        ++psn;
        assert_memory_equal(p->server.memory, expected, sizeof(expected));
    }
    assert_int_equal(state_of(p->client.qp), IBV_QPS_RTS);
    assert_int_equal(state_of(p->server.qp), IBV_QPS_RTS);
    assert_int_equal(state_of(datagrams), IBV_QPS_RTS);
    expect_no_completion(p->server.cq);
    expect_no_event(p->client.channel);
    expect_no_event(p->server.channel);

    /* Packets without a wrong field are valid. */
    uint8_t bytes[64];
    put_datagram(bytes, datagrams->qp_num, qkey);
    send_bytes(&peer, bytes, with_crc(bytes, datagram_size, &peer.own));
    expect_completion(p->server.cq, 77, IBV_WC_SUCCESS);
    put_write(bytes, p, psn);
    send_bytes(&peer, bytes, with_crc(bytes, write_size, &peer.own));
    AWAIT(__atomic_load_n(&p->server.memory[target + 7], __ATOMIC_ACQUIRE) == 0xff);
    close(peer.fd);
    close(stranger.fd);
    assert_int_equal(ibv_destroy_qp(datagrams), 0);
}
