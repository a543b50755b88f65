/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SOFTRDMA_STRANGER_H
#define SOFTRDMA_STRANGER_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

/* A program without the device that sends packets to a datagram queue pair. */
enum {
    marker_qkey = 0x4321,
    packet_headers = 20,
    stranger_payload = 44,
    longest_packet = 65000,
    /* Byte offsets of fields. */
    packet_destination = 4,
    packet_psn = 8,
    packet_qkey = 12,
    packet_source = 16,
};

struct packet {
    size_t size;
    uint8_t bytes[longest_packet];
};

struct stranger {
    int udp;
    int raw; /* sends forged headers */
    struct sockaddr_in own;
    struct sockaddr_in to;
    uint32_t qpn; /* target queue pair */
    unsigned seed;
};

struct stranger open_stranger(const char *own, const char *to, uint32_t qpn);
void close_stranger(struct stranger *s);

/* Returns a valid packet for a queue pair with that Q_Key. */
struct packet packet_of(const struct stranger *s, uint32_t key);
void set_word(struct packet *p, size_t at, uint32_t value);
void send_packet(const struct stranger *s, const struct packet *p);
/* Sends a UDP packet with a forged source address. Its length field exceeds its size by `longer` bytes. */
void send_forged(const struct stranger *s, const char *from, const struct packet *p, int longer);

/* Sends wrong Q_Keys, flipped header bits, invalid sizes and random bytes. */
void send_wrong_ones(struct stranger *s, const struct packet *right);
/* Like send_wrong_ones(), with a forged source address, and with invalid UDP lengths. */
void send_forged_ones(struct stranger *s, const struct packet *right, const char *from);

#endif
