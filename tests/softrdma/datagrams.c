/* SPDX-License-Identifier: BSD-3-Clause */
#include "datagrams.h"

#include <arpa/inet.h>
#include <sys/socket.h>

struct ibv_ah_attr address_of(const char *text)
{
    const int index = gid_index_of(text);
    assert_int_not_equal(index, no_gid);
    struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1, .grh = {.sgid_index = (uint8_t)index, .hop_limit = 64}};
    assert_int_equal(ibv_query_gid(device, 1, index, &attr.grh.dgid), 0);
    return attr;
}

int to_state(struct ibv_qp *qp, enum ibv_qp_state state, int mask)
{
    struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1, .qkey = qkey, .sq_psn = 5};
    return ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
}

void to_rts(struct ibv_qp *qp)
{
    assert_int_equal(to_state(qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    assert_int_equal(to_state(qp, IBV_QPS_RTR, 0), 0);
    assert_int_equal(to_state(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
}

struct side open_side(struct ibv_srq *srq, uint64_t send_ops)
{
    struct side side = {.completions = ibv_create_comp_channel(device), .size = slots * slot};
    assert_non_null(side.completions);
    side.pd = srq != NULL ? srq->pd : ibv_alloc_pd(device);
    side.cq = ibv_create_cq(device, 64, NULL, side.completions, 0);
    struct ibv_qp_init_attr_ex attr = {.send_cq = side.cq,
            .recv_cq = side.cq,
            .srq = srq,
            .qp_type = IBV_QPT_UD,
            .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64},
            .comp_mask = IBV_QP_INIT_ATTR_PD | (send_ops != 0 ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
            .pd = side.pd,
            .send_ops_flags = send_ops};
    side.qp = ibv_create_qp_ex(device, &attr);
    assert_non_null(side.qp);
    side.memory = calloc(1, side.size);
    side.mr = create_mr(side.pd, side.memory, side.size, IBV_ACCESS_LOCAL_WRITE);
    return side;
}

struct side open_ready(void)
{
    struct side side = open_side(NULL, 0);
    to_rts(side.qp);
    return side;
}

int receive(struct side *side, uint64_t wr_id, size_t offset, size_t length)
{
    return side->qp->srq != NULL ? post_shared_receive(side->qp->srq, side, wr_id, offset, length)
                                 : post_receive(side, wr_id, offset, length);
}

struct ibv_send_wr send_wr(const struct side *from, struct ibv_sge *sge, struct ibv_ah *ah, const struct side *to)
{
    *sge = sge_of(from, 0, 64);
    return (struct ibv_send_wr){.wr_id = 1,
            .sg_list = sge,
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.ud = {.ah = ah, .remote_qpn = to->qp->qp_num, .remote_qkey = qkey}};
}

struct ibv_ah *handle_to(const struct side *from, const char *address)
{
    struct ibv_ah_attr attr = address_of(address);
    struct ibv_ah *ah = ibv_create_ah(from->pd, &attr);
    assert_non_null(ah);
    return ah;
}

int open_udp(const char *address, struct sockaddr_in *own)
{
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t size = sizeof(*own);
    *own = (struct sockaddr_in){.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, address, &own->sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)own, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)own, &size), 0);
    return fd;
}

static uint32_t crc(uint32_t value, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; ++i) {
        value ^= bytes[i];
        for (int bit = 0; bit < 8; ++bit)
            value = (value & 1) != 0 ? value >> 1 ^ 0xedb88320u : value >> 1;
    }
    return value;
}

size_t with_crc(uint8_t *packet, size_t size, const struct sockaddr_in *from)
{
    uint8_t masked[8 + 20 + 8 + 5] = {[8] = 0x45, [14] = 0x40, [17] = IPPROTO_UDP, [24] = 127, [27] = 1};
    static const unsigned char ones[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 16, 18, 19, 34, 35, 40};
    const uint16_t lengths[] = {htons((uint16_t)(20 + 8 + size + 4)), htons((uint16_t)(8 + size + 4))};
    const in_port_t to = htons(4791);
    memcpy(masked + 10, &lengths[0], 2);
    memcpy(masked + 20, &from->sin_addr, 4);
    memcpy(masked + 28, &from->sin_port, 2);
    memcpy(masked + 30, &to, 2);
    memcpy(masked + 32, &lengths[1], 2);
    memcpy(masked + 36, packet, 4);
    for (size_t i = 0; i < sizeof(ones); ++i)
        masked[ones[i]] = 0xff;
    const uint32_t value = ~crc(crc(~0u, masked, sizeof(masked)), packet + 5, size - 5);
    for (size_t i = 0; i < 4; ++i)
        packet[size + i] = (uint8_t)(value >> 8 * i);
    return size + 4;
}
