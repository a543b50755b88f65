/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SOFTRDMA_STRANGER_H
#define SOFTRDMA_STRANGER_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

/* A program without a device that sends packets to a datagram queue pair. */
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
    int raw; /* raw socket, for forged headers */
    struct sockaddr_in own;
    struct sockaddr_in to;
    uint32_t qpn; /* number of the target queue pair */
    unsigned seed;
};

struct stranger open_stranger(const char *own, const char *to, uint32_t qpn);
void close_stranger(struct stranger *s);

/* One that is right, if that is the Q_Key. */
struct packet packet_of(const struct stranger *s, uint32_t key);
void set_word(struct packet *p, size_t at, uint32_t value);
void send_packet(const struct stranger *s, const struct packet *p);
/* Sends from an address that may be forged, as a UDP packet whose length field exceeds its size by `longer` bytes. */
void send_forged(const struct stranger *s, const char *from, const struct packet *p, int longer);

/* Wrong Q_Keys, other numbers, each bit of the headers, all that is too short or too long, and noise. */
void send_wrong_ones(struct stranger *s, const struct packet *right);
/* Like send_wrong_ones(), from another address, and with invalid lengths. */
void send_forged_ones(struct stranger *s, const struct packet *right, const char *from);

#endif
