/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "fixture.h"

#include <netinet/in.h>

enum {
    header = 40, /* size of the network header before each message */
    mtu = 4096,
    slot = header + mtu,
    slots = 64, /* number of slots in the memory of each side */
    qkey = 0x1234,
};

/* Change the state of a datagram queue pair. */
int to_state(struct ibv_qp *qp, enum ibv_qp_state state, int mask);
void to_rts(struct ibv_qp *qp);
struct side open_side(struct ibv_srq *srq, uint64_t send_ops);
struct side open_ready(void);

/* Address attributes for an address of this host, given in the format of a GID. */
struct ibv_ah_attr address_of(const char *text);
struct ibv_ah *handle_to(const struct side *from, const char *address);

int receive(struct side *side, uint64_t wr_id, size_t offset, size_t length);
/* Default request for a datagram; the tests change members. */
struct ibv_send_wr send_wr(const struct side *from, struct ibv_sge *sge, struct ibv_ah *ah, const struct side *to);

/* Returns a UDP socket that is bound to any port of an address, and stores that end. */
int open_udp(const char *address, struct sockaddr_in *own);
/* Appends the invariant CRC to a packet of RoCE from that end to 127.0.0.1. Returns the size of both. */
size_t with_crc(uint8_t *packet, size_t size, const struct sockaddr_in *from);
