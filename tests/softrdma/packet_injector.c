/* SPDX-License-Identifier: BSD-3-Clause */
#include "packet_injector.h"
#include "fixture.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    max_valid_size = packet_headers + 4 + 4096, /* valid size with immediate data */
    few = 16,                                   /* number of packets after which the sender pauses for the receiver */
};

static struct sockaddr_in end_of(const char *address)
{
    struct sockaddr_in end = {.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, address, &end.sin_addr), 1);
    return end;
}

struct injector open_injector(const char *own, const char *to, uint32_t qpn)
{
    struct injector s = {.udp = socket(AF_INET, SOCK_DGRAM, 0),
            .raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW),
            .own = end_of(own),
            .to = end_of(to)};
    socklen_t size = sizeof(s.own);
    s.to.sin_port = htons((uint16_t)(qpn >> 8));
    assert_true(s.udp >= 0 && s.raw >= 0);
    assert_int_equal(bind(s.udp, (struct sockaddr *)&s.own, size), 0);
    assert_int_equal(getsockname(s.udp, (struct sockaddr *)&s.own, &size), 0);
    s.qpn = qpn;
    s.seed = qpn;
    return s;
}

void close_injector(struct injector *s)
{
    close(s->udp);
    close(s->raw);
}

void set_word(struct packet *p, size_t at, uint32_t value)
{
    const uint32_t big_endian = htonl(value);
    memcpy(p->bytes + at, &big_endian, sizeof(big_endian));
}

struct packet valid_packet(const struct injector *s, uint32_t key)
{
    struct packet p = {.size = packet_headers + injector_payload, .bytes = {0x64, 0, 0xff, 0xff}};
    set_word(&p, packet_destination, s->qpn);
    set_word(&p, packet_qkey, key);
    set_word(&p, packet_source, (uint32_t)ntohs(s->own.sin_port) << 8 | 1);
    return p;
}

void send_packet(const struct injector *s, const struct packet *p)
{
    ssize_t sent = 0;
    do
        sent = sendto(s->udp, p->bytes, p->size, 0, (const struct sockaddr *)&s->to, sizeof(s->to));
    while (sent < 0 && errno == ECONNREFUSED); /* error of an earlier packet */
    assert_int_equal(sent, (ssize_t)p->size);
}

void send_forged(const struct injector *s, const char *from, const struct packet *p, int longer)
{
    const struct sockaddr_in source = end_of(from);
    const struct iphdr ip = {.version = 4,
            .ihl = sizeof(ip) / 4,
            .ttl = 64,
            .protocol = IPPROTO_UDP,
            .saddr = source.sin_addr.s_addr,
            .daddr = s->to.sin_addr.s_addr};
    /* checksum 0: not checked */
    const struct udphdr udp = {.source = s->own.sin_port,
            .dest = s->to.sin_port,
            .len = htons((uint16_t)((int)(sizeof(udp) + p->size) + longer))};
    const struct iovec pieces[] = {{(void *)&ip, sizeof(ip)}, {(void *)&udp, sizeof(udp)}, {(void *)p->bytes, p->size}};
    const struct msghdr message = {.msg_name = (void *)&s->to,
            .msg_namelen = sizeof(s->to),
            .msg_iov = (struct iovec *)pieces,
            .msg_iovlen = 3};
    assert_true(sendmsg(s->raw, &message, 0) > 0);
}

/* Sends through the own socket, or with the forged address `from`. */
static void send_one(const struct injector *s, const char *from, const struct packet *p)
{
    static unsigned sent;
    if (from == NULL)
        send_packet(s, p);
    else if (p->size <= 1000) /* larger packets would be fragmented */
        send_forged(s, from, p, 0);
    if (++sent % few == 0)
        poll(NULL, 0, 1);
}

static void send_wrong_keys(struct injector *s, const char *from, const struct packet *right)
{
    struct packet p = *right;
    const uint32_t key = 0x1234;
    const uint32_t others[] = {0, 1, UINT32_MAX, 0x80000000u | key, 0x34120000, key - 1, key + 1, marker_qkey};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); ++i) {
        set_word(&p, packet_qkey, others[i]);
        send_one(s, from, &p);
    }
}

/* Flips each header bit that must be valid. Not among these: solicited event, flag of immediate data, PSN, and the low
 * byte of the source number. */
static void send_wrong_bits(struct injector *s, const char *from, const struct packet *right)
{
    for (size_t bit = 0; bit < 8 * packet_headers; ++bit) {
        const size_t byte = bit / 8;
        const uint8_t mask = (uint8_t)(1u << bit % 8);
        const int is_free = (byte == 0 && mask == 1) || (byte == 1 && mask == 0x80) ||
                            (byte > packet_psn && byte < packet_qkey) || byte == packet_source + 3;
        struct packet p = *right;
        p.bytes[byte] ^= mask;
        if (!is_free)
            send_one(s, from, &p);
    }
}

static void send_wrong_sizes(struct injector *s, const char *from, const struct packet *right)
{
    struct packet p = *right;
    for (p.size = 0; p.size < packet_headers; ++p.size)
        send_one(s, from, &p);
    p.bytes[0] = 0x65; /* opcode with immediate data */
    for (; p.size < packet_headers + 4; ++p.size)
        send_one(s, from, &p);
    p.bytes[0] = 0x64;
    const size_t sizes[] = {max_valid_size - 3, max_valid_size + 1, 3 * max_valid_size, max_packet_size};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        p.size = sizes[i];
        send_one(s, from, &p);
    }
}

static void send_noise(struct injector *s, const char *from)
{
    struct packet p;
    for (unsigned i = 0; i < 200; ++i) {
        p.size = (size_t)rand_r(&s->seed) % 300;
        for (size_t at = 0; at < p.size; ++at)
            p.bytes[at] = (uint8_t)rand_r(&s->seed);
        send_one(s, from, &p);
    }
}

static void send_all_wrong(struct injector *s, const char *from, const struct packet *right)
{
    send_wrong_keys(s, from, right);
    send_wrong_bits(s, from, right);
    send_wrong_sizes(s, from, right);
    send_noise(s, from);
}

void send_invalid_packets(struct injector *s, const struct packet *right)
{
    send_all_wrong(s, NULL, right);
}

void send_forged_packets(struct injector *s, const struct packet *right, const char *from)
{
    send_all_wrong(s, from, right);
    /* Length beyond the packet, length 0, and truncated headers. */
    const int wrong[] = {1, 1000, -(int)(right->size + 8), -(int)right->size, -(int)(right->size - packet_headers + 1)};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i)
        send_forged(s, from, right, wrong[i]);
}
