/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

/* A program without the device that sends packets to a datagram queue pair. */
enum {
    marker_qkey = 0x4321,
    packet_headers = 20,
    injector_payload = 44,
    max_packet_size = 65000,
    /* Byte offsets of fields. */
    packet_destination = 4,
    packet_psn = 8,
    packet_qkey = 12,
    packet_source = 16,
};

struct packet {
    size_t size;
    uint8_t bytes[max_packet_size];
};

struct injector {
    int udp;
    int raw; /* sends forged headers */
    struct sockaddr_in own;
    struct sockaddr_in to;
    uint32_t qpn; /* target queue pair */
    unsigned seed;
};

struct injector open_injector(const char *own, const char *to, uint32_t qpn);
void close_injector(struct injector *s);

/* Returns a valid packet for a queue pair with that Q_Key. */
struct packet valid_packet(const struct injector *s, uint32_t key);
void set_word(struct packet *p, size_t at, uint32_t value);
void send_packet(const struct injector *s, const struct packet *p);
/* Sends a UDP packet with a forged source address. Its length field exceeds its size by `longer` bytes. */
void send_forged(const struct injector *s, const char *from, const struct packet *p, int longer);

/* Sends wrong Q_Keys, flipped header bits, invalid sizes and random bytes. */
void send_invalid_packets(struct injector *s, const struct packet *right);
/* Like send_invalid_packets(), with a forged source address, and with invalid UDP lengths. */
void send_forged_packets(struct injector *s, const struct packet *right, const char *from);
