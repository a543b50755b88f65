/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SOFTRDMA_STRANGER_H
#define SOFTRDMA_STRANGER_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

/* Somebody who has no device, and sends packets to a datagram queue pair. */
enum {
    marker_qkey = 0x4321,
    packet_headers = 20,
    stranger_payload = 44,
    longest_packet = 65000,
    /* Where words are. */
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
    int raw; /* with headers of its own making */
    struct sockaddr_in own;
    struct sockaddr_in to;
    uint32_t qpn; /* of the queue pair there */
    unsigned seed;
};

struct stranger open_stranger(const char *own, const char *to, uint32_t qpn);
void close_stranger(struct stranger *s);

/* One that is right, if that is the Q_Key. */
struct packet packet_of(const struct stranger *s, uint32_t key);
void set_word(struct packet *p, size_t at, uint32_t value);
void send_packet(const struct stranger *s, const struct packet *p);
/* From an address that need not be its own, as a UDP packet that says it is so many bytes longer than it is. */
void send_forged(const struct stranger *s, const char *from, const struct packet *p, int longer);

/* Wrong Q_Keys, other numbers, each bit of the headers, all that is too short or too long, and noise. */
void send_wrong_ones(struct stranger *s, const struct packet *right);
/* The same from another address, and lengths that are not true. */
void send_forged_ones(struct stranger *s, const struct packet *right, const char *from);

#endif
