/* SPDX-License-Identifier: BSD-3-Clause */
/* Unreliable-datagram queue pairs and address handles. */
#include "datagrams.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static const char loopback[] = "::ffff:127.0.0.1";

static void destroy_handle(struct ibv_ah **ah)
{
    assert_int_equal(ibv_destroy_ah(*ah), 0);
}

/* Define a side, and a handle of one to an address. They are closed at the end of the block. */
#define SIDE(name) struct side name __attribute__((cleanup(close_with_pd)))
#define OPEN_HANDLE(name, from, address)                                                                               \
    struct ibv_ah *name __attribute__((cleanup(destroy_handle))) = handle_to(&from, address)
/* Defines two open sides, and a handle of the first one to this host. */
#define OPEN_DATAGRAM_SIDES(a, b, ah)                                                                                  \
    SIDE(a) = open_ready();                                                                                            \
    SIDE(b) = open_ready();                                                                                            \
    OPEN_HANDLE(ah, a, loopback)

static void expect_nothing(struct ibv_cq *cq)
{
    expect_no_completion_for(cq, 100);
}

static void send_one(struct side *from, struct ibv_ah *ah, const struct side *to)
{
    struct ibv_sge sge;
    post_wr_and_expect(from, send_wr(from, &sge, ah, to), IBV_WC_SUCCESS);
}

/* Sends a datagram and a response, whose address handle is created from the received completion. */
static void answer_over(const char *address)
{
    SIDE(a) = open_ready();
    SIDE(b) = open_ready();
    OPEN_HANDLE(ah, a, address);
    struct ibv_sge sge;
    fill(a.memory, 64, 7);
    assert_int_equal(receive(&b, 2, 0, 200), 0);
    struct ibv_send_wr wr = send_wr(&a, &sge, ah, &b);
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htonl(0xabcdef01);
    post_wr_and_expect(&a, wr, IBV_WC_SUCCESS);
    struct ibv_wc wc = expect_completion(b.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, htonl(0xabcdef01));
    assert_int_equal(wc.byte_len, header + 64);
    assert_int_equal(wc.src_qp, a.qp->qp_num);
    assert_int_equal(wc.qp_num, b.qp->qp_num);
    assert_memory_equal(b.memory + header, a.memory, 64);
    assert_int_equal(wc.sl, b.memory[0] == 0 ? 10 : 0); /* an IPv4 packet of RoCE */

    struct ibv_ah_attr found;
    assert_int_equal(ibv_init_ah_from_wc(device, 1, &wc, (void *)b.memory, &found), 0);
    struct ibv_ah_attr expected = address_of(address);
    assert_int_equal(found.grh.sgid_index, expected.grh.sgid_index);
    assert_memory_equal(found.grh.dgid.raw, expected.grh.dgid.raw, 16);
    struct ibv_ah *back = ibv_create_ah_from_wc(b.pd, &wc, (void *)b.memory, 1);
    assert_non_null(back);
    assert_int_equal(receive(&a, 3, 0, header + 64), 0);
    send_one(&b, back, &a);
    wc = expect_completion(a.cq, 3, IBV_WC_SUCCESS);
    assert_int_equal(wc.src_qp, b.qp->qp_num);
    assert_int_equal(wc.wc_flags, IBV_WC_GRH);

    assert_int_equal(ibv_dealloc_pd(a.pd), EBUSY);
    assert_int_equal(ibv_destroy_ah(back), 0);
}

TEST(test_messages_and_answers)
{
    answer_over(loopback);
}

TEST(test_ipv6)
{
    if (gid_index_of("::1") >= 0)
        answer_over("::1");
    else
        print_message("::1: address not found on this host\n");
}

TEST(test_only_clients_with_the_key_are_accepted)
{
    OPEN_DATAGRAM_SIDES(a, b, ah);
    struct ibv_sge sge;
    assert_int_equal(receive(&b, 2, 0, 200), 0);
    struct ibv_send_wr wr = send_wr(&a, &sge, ah, &b);
    wr.wr.ud.remote_qkey = qkey + 1;
    post_wr_and_expect(&a, wr, IBV_WC_SUCCESS);
    expect_nothing(b.cq);
    /* The highest bit selects the sender's own Q_Key. */
    wr.wr.ud.remote_qkey = 0x80000000u | (qkey + 1);
    assert_int_equal(post_wr(&a, wr), 0);
    expect_completion(b.cq, 2, IBV_WC_SUCCESS);
    expect_completion(a.cq, 1, IBV_WC_SUCCESS);
    struct ibv_qp_attr other = {.qkey = 77};
    assert_int_equal(ibv_modify_qp(a.qp, &other, IBV_QP_QKEY), 0);
    assert_int_equal(receive(&b, 3, 0, 200), 0);
    post_wr_and_expect(&a, wr, IBV_WC_SUCCESS);
    expect_nothing(b.cq);
}

TEST(test_lost_without_receive)
{
    OPEN_DATAGRAM_SIDES(a, b, ah);
    send_one(&a, ah, &b);
    expect_nothing(b.cq);
    assert_int_equal(receive(&b, 2, 0, 200), 0);
    expect_nothing(b.cq); /* it was dropped, not queued */
    send_one(&a, ah, &b);
    expect_completion(b.cq, 2, IBV_WC_SUCCESS);
}

TEST(test_lengths)
{
    OPEN_DATAGRAM_SIDES(a, b, ah);
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(a.pd->context, 1, &port), 0);
    const uint32_t longest = 128U << port.active_mtu; /* over RoCE, that of the interface */
    struct ibv_sge sge;
    struct ibv_send_wr wr = send_wr(&a, &sge, ah, &b);
    fill(a.memory, longest, 3);
    assert_int_equal(receive(&b, 2, 0, header + longest), 0);
    sge.length = longest;
    post_wr_and_expect(&a, wr, IBV_WC_SUCCESS);
    expect_completion(b.cq, 2, IBV_WC_SUCCESS);
    assert_memory_equal(b.memory + header, a.memory, longest);
    /* An empty scatter list. */
    assert_int_equal(receive(&b, 3, 0, header), 0);
    wr.num_sge = 0;
    post_wr_and_expect(&a, wr, IBV_WC_SUCCESS);
    assert_int_equal(next_completion(b.cq).byte_len, header);
    /* One byte too many stops only the send queue, until it is restarted. */
    wr.num_sge = 1;
    sge.length = longest + 1;
    post_wr_and_expect(&a, wr, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(a.qp->state, IBV_QPS_SQE);
    sge.length = 8;
    post_wr_and_expect(&a, wr, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(to_state(a.qp, IBV_QPS_RTS, IBV_QP_CUR_STATE), EINVAL);
    assert_int_equal(to_state(a.qp, IBV_QPS_RTS, 0), 0);
    /* A receive that is too small moves the receiver to the error state. */
    assert_int_equal(receive(&b, 4, 0, header + 7), 0);
    assert_int_equal(receive(&b, 5, 0, header + 8), 0);
    post_wr_and_expect(&a, wr, IBV_WC_SUCCESS);
    expect_completion(b.cq, 4, IBV_WC_LOC_LEN_ERR);
    expect_completion(b.cq, 5, IBV_WC_WR_FLUSH_ERR);
}

TEST(test_inline_and_lists)
{
    OPEN_DATAGRAM_SIDES(a, b, ah);
    uint8_t text[] = "inline data need no region";
    struct ibv_sge in_line = {(uintptr_t)text, sizeof(text), 0};
    struct ibv_sge sge;
    struct ibv_send_wr wr = send_wr(&a, &sge, ah, &b);
    wr.sg_list = &in_line;
    wr.send_flags |= IBV_SEND_INLINE;
    /* The end of the header and the message share an element; the start of the header is in another. */
    struct ibv_sge parts[] = {{(uintptr_t)b.memory, 30, b.mr->lkey}, {(uintptr_t)b.memory + 1000, 100, b.mr->lkey}};
    assert_int_equal(post_receive_list(b.qp, 9, parts, 2), 0);
    assert_int_equal(post_wr(&a, wr), 0);
    memset(text, 0, 3);
    expect_completion(b.cq, 9, IBV_WC_SUCCESS);
    assert_memory_equal(b.memory + 1010, "inline", 6);
    wr.send_flags &= ~(unsigned)IBV_SEND_INLINE;
    expect_completion(a.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(post_wr(&a, wr), 0); /* not registered */
    expect_completion(a.cq, 1, IBV_WC_LOC_PROT_ERR);
}

TEST(test_new_post_interface)
{
    SIDE(a) = open_side(NULL, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
    SIDE(b) = open_ready();
    OPEN_HANDLE(ah, a, loopback);
    to_rts(a.qp);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(a.qp);
    assert_non_null(qp);
    assert_int_equal(receive(&b, 2, 0, 200), 0);
    ibv_wr_start(qp);
    qp->wr_id = 4;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send_imm(qp, 5);
    ibv_wr_set_ud_addr(qp, ah, b.qp->qp_num, qkey);
    ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)a.memory, 16);
    assert_int_equal(ibv_wr_complete(qp), 0);
    expect_completion(a.cq, 4, IBV_WC_SUCCESS);
    assert_int_equal(next_completion(b.cq).imm_data, 5);
    ibv_wr_start(qp);
    ibv_wr_send(qp); /* the destination is missing */
    ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)a.memory, 16);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    expect_no_send_ops(&a, IBV_QP_EX_WITH_RDMA_WRITE);
}

TEST(test_shared_receive_queue)
{
    struct ibv_pd *pd = ibv_alloc_pd(device);
    struct ibv_srq *srq = create_srq(pd, 8);
    SIDE(a) = open_ready();
    struct side b[2] = {open_side(srq, 0), open_side(srq, 0)};
    OPEN_HANDLE(ah, a, loopback);
    to_rts(b[0].qp);
    to_rts(b[1].qp);
    assert_int_equal(receive(&b[0], 1, 0, 200), 0);
    assert_int_equal(receive(&b[0], 2, 200, 200), 0);
    send_one(&a, ah, &b[1]);
    expect_completion(b[1].cq, 1, IBV_WC_SUCCESS);
    send_one(&a, ah, &b[0]);
    expect_completion(b[0].cq, 2, IBV_WC_SUCCESS);
    send_one(&a, ah, &b[0]);
    expect_nothing(b[0].cq);
    close_side(&b[0]);
    close_side(&b[1]);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

TEST(test_states)
{
    SIDE(a) = open_side(NULL, 0);
    OPEN_HANDLE(ah, a, loopback);
    struct ibv_sge sge;
    assert_int_equal(receive(&a, 2, 0, 200), EINVAL);
    assert_int_equal(to_state(a.qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT), EINVAL);
    assert_int_equal(to_state(a.qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), EINVAL);
    assert_int_equal(to_state(a.qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    assert_int_equal(to_state(a.qp, IBV_QPS_RTS, IBV_QP_SQ_PSN), EINVAL);
    assert_int_equal(to_state(a.qp, IBV_QPS_RTR, IBV_QP_DEST_QPN), EINVAL);
    assert_int_equal(receive(&a, 2, 0, 200), 0);
    assert_int_equal(post_wr(&a, send_wr(&a, &sge, ah, &a)), EINVAL);
    assert_int_equal(to_state(a.qp, IBV_QPS_RTR, 0), 0);
    assert_int_equal(to_state(a.qp, IBV_QPS_RTS, 0), EINVAL);
    assert_int_equal(to_state(a.qp, IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_QKEY | IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qkey, qkey);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(init.qp_type, IBV_QPT_UD);
    /* In SQD, posted requests wait. A queue pair can send to itself. */
    assert_int_equal(to_state(a.qp, IBV_QPS_SQD, 0), 0);
    assert_int_equal(post_wr(&a, send_wr(&a, &sge, ah, &a)), 0);
    expect_nothing(a.cq);
    assert_int_equal(to_state(a.qp, IBV_QPS_RTS, 0), 0);
    expect_completion(a.cq, 1, IBV_WC_SUCCESS);
    expect_completion(a.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(receive(&a, 3, 0, 200), 0);
    assert_int_equal(receive(&a, 5, 0, 200), 0);
    assert_int_equal(to_state(a.qp, IBV_QPS_ERR, 0), 0);
    expect_completion(a.cq, 3, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(to_state(a.qp, IBV_QPS_RESET, 0), 0);
    to_rts(a.qp);
    assert_int_equal(receive(&a, 4, 0, 200), 0);
    send_one(&a, ah, &a);
    expect_completion(a.cq, 4, IBV_WC_SUCCESS);
}

TEST(test_bad_arguments)
{
    OPEN_DATAGRAM_SIDES(b, a, ah);
    struct ibv_sge sge;
    struct ibv_send_wr wr = send_wr(&a, &sge, NULL, &b);
    assert_int_equal(post_wr(&a, wr), EINVAL);
    wr.wr.ud.ah = ah;
    wr.opcode = IBV_WR_RDMA_WRITE;
    assert_int_equal(post_wr(&a, wr), EINVAL);
    wr.opcode = IBV_WR_SEND; /* the handle belongs to another domain */
    post_wr_and_expect(&a, wr, IBV_WC_LOC_QP_OP_ERR);
    struct ibv_ah_attr attrs[4];
    for (int i = 0; i < 4; ++i)
        attrs[i] = address_of(loopback);
    attrs[0].is_global = 0;
    attrs[1].port_num = 2;
    attrs[2].grh.sgid_index = 255;
    attrs[3].grh.dgid.raw[12] = 224;
    for (int i = 0; i < 4; ++i) {
        expect_null(ibv_create_ah(a.pd, &attrs[i]), i == 3 ? EOPNOTSUPP : EINVAL);
    }
    assert_int_equal(ibv_attach_mcast(a.qp, &attrs[3].grh.dgid, 0), EOPNOTSUPP);
}

TEST(test_event_wakes)
{
    OPEN_DATAGRAM_SIDES(a, b, ah);
    assert_int_equal(receive(&b, 2, 0, 200), 0);
    assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
    send_one(&a, ah, &b);
    assert_ptr_equal(take_cq_event(b.completions), b.cq);
    expect_completion(b.cq, 2, IBV_WC_SUCCESS);
}

static bool listens(uint32_t qpn)
{
    const struct sockaddr_in to = {
            .sin_family = AF_INET, .sin_port = htons((uint16_t)(qpn >> 8)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const bool connected = connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0;
    close(fd);
    return connected;
}

/* Numbers are unique while they are in use, and more than 256 can exist. Over TCP, the ports of those of connections
 * are released with them. */
TEST(test_many)
{
    enum {
        many = 600
    };
    SIDE(a) = open_ready();
    OPEN_HANDLE(ah, a, loopback);
    struct ibv_qp *all[many];
    struct ibv_cq *receives = ibv_create_cq(device, many, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {.send_cq = a.cq, .recv_cq = receives, .cap = {1, 1, 1, 1, 0}};
    for (int i = 0; i < many; ++i) {
        attr.qp_type = i % 3 == 0 ? IBV_QPT_RC : IBV_QPT_UD;
        all[i] = ibv_create_qp(a.pd, &attr);
        assert_non_null(all[i]);
        for (int j = 0; j < i; ++j)
            assert_int_not_equal(all[i]->qp_num, all[j]->qp_num);
        assert_true(is_over_roce() || i % 99 != 0 || listens(all[i]->qp_num));
    }
    struct side last = a;
    last.qp = all[many - 1];
    last.cq = receives;
    to_rts(last.qp);
    assert_int_equal(receive(&last, 8, 64, 200), 0);
    send_one(&a, ah, &last);
    expect_completion(receives, 8, IBV_WC_SUCCESS);
    const uint32_t number = all[many - 3]->qp_num; /* number at the last port */
    for (int i = 0; i < many; ++i)
        assert_int_equal(ibv_destroy_qp(all[i]), 0);
    assert_true(is_over_roce() || !listens(number));
    assert_int_equal(ibv_destroy_cq(receives), 0);
}

/* An unknown program sends packets of RoCE to a queue pair: each has one wrong field, and then a valid one. */
TEST(test_packets_of_roce)
{
    if (!is_over_roce())
        skip();
    SIDE(b) = open_ready();
    memset(b.memory, 0xee, header + mtu);
    assert_int_equal(receive(&b, 2, 0, header + mtu), 0);
    struct sockaddr_in own;
    const int fd = open_udp("127.0.0.1", &own);
    struct sockaddr_in to = own;
    to.sin_port = htons(4791);
    enum {
        content = 5,
        whole = 20 + 8 /* padding included */
    };
    const uint8_t right[whole] = {0x64, 0x70, 0xff, 0xff, [20] = 'h', 'e', 'l', 'l', 'o'};
    const uint32_t words[] = {htonl(b.qp->qp_num), 0, htonl(qkey), htonl(0x654321)};
    uint8_t bytes[20 + mtu + 8];
    static const struct {
        size_t at;
        uint8_t change;
    } wrong[] = {{0, 0x0e}, {1, 0x01}, {2, 0x40}, {3, 0x01}, {7, 0x02}, {12, 0x01}, {15, 0x01}, {whole, 0x01},
            {whole + 3, 0x80}};
    for (size_t i = 0; i <= sizeof(wrong) / sizeof(wrong[0]); ++i) {
        memcpy(bytes, right, whole);
        memcpy(bytes + 4, words, sizeof(words));
        if (i == sizeof(wrong) / sizeof(wrong[0])) {
            expect_nothing(b.cq);
        } else if (wrong[i].at < whole) {
            bytes[wrong[i].at] ^= wrong[i].change;
        }
        const size_t sent = with_crc(bytes, whole, &own);
        if (i < sizeof(wrong) / sizeof(wrong[0]) && wrong[i].at >= whole)
            bytes[wrong[i].at] ^= wrong[i].change;
        assert_int_equal(sendto(fd, bytes, sent, 0, (struct sockaddr *)&to, sizeof(to)), (ssize_t)sent);
    }
    const struct ibv_wc wc = expect_completion(b.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, header + content);
    assert_int_equal(wc.src_qp, 0x654321);
    assert_memory_equal(b.memory + header, "hello\xee", content + 1);
    /* The IPv4 header is in the last 20 bytes of the space for the GRH. */
    static const uint8_t nothing[20];
    static const uint8_t addresses[] = {127, 0, 0, 1, 127, 0, 0, 1};
    assert_memory_equal(b.memory, nothing, 20);
    assert_int_equal(b.memory[20], 0x45);
    assert_int_equal(b.memory[23], 20 + 8 + whole + 4);
    assert_memory_equal(b.memory + 32, addresses, 8);
    uint32_t sum = 0;
    for (size_t i = 20; i < 40; i += 2)
        sum += (uint32_t)b.memory[i] << 8 | b.memory[i + 1];
    assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
    /* Longer than an MTU. */
    assert_int_equal(receive(&b, 3, 0, slots * slot), 0);
    memset(bytes + whole, 0, sizeof(bytes) - whole);
    bytes[1] = 0x40;
    size_t sent = with_crc(bytes, 20 + mtu + 4, &own);
    assert_int_equal(sendto(fd, bytes, sent, 0, (struct sockaddr *)&to, sizeof(to)), (ssize_t)sent);
    expect_nothing(b.cq);
    sent = with_crc(bytes, 20 + mtu, &own);
    assert_int_equal(sendto(fd, bytes, sent, 0, (struct sockaddr *)&to, sizeof(to)), (ssize_t)sent);
    assert_int_equal(next_completion(b.cq).byte_len, header + mtu);
    close(fd);
}

/* Returns the MTU before the change. */
static int set_loopback_mtu(int bytes)
{
    struct ifreq request = {.ifr_name = "lo"};
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(ioctl(fd, SIOCGIFMTU, &request), 0);
    const int before = request.ifr_mtu;
    request.ifr_mtu = bytes;
    assert_int_equal(ioctl(fd, SIOCSIFMTU, &request), 0);
    close(fd);
    return before;
}

/* A message must fit the path MTU that the interface of the address handle permits: 1024 for Ethernet. */
TEST(test_small_path_mtu)
{
    if (!is_over_roce())
        skip();
    SIDE(a) = open_ready();
    SIDE(b) = open_ready();
    struct ibv_sge sge;
    const int before = set_loopback_mtu(1500);
    OPEN_HANDLE(ah, a, loopback);
    set_loopback_mtu(before);
    struct ibv_send_wr wr = send_wr(&a, &sge, ah, &b);
    assert_int_equal(receive(&b, 2, 0, header + mtu), 0);
    sge.length = 1024;
    post_wr_and_expect(&a, wr, IBV_WC_SUCCESS);
    expect_completion(b.cq, 2, IBV_WC_SUCCESS);
    sge.length = 1025;
    post_wr_and_expect(&a, wr, IBV_WC_LOC_LEN_ERR);
}

/* Six datagrams: one is lost, one is duplicated, and two are delayed, of which others overtake one. The last cannot be
 * sent. */
TEST(test_faults)
{
    OPEN_DATAGRAM_SIDES(a, b, ah);
    struct ibv_sge sge;
    const unsigned times[] = {0, 0, 2, 0, 1, 1}; /* expected number of arrivals of each */
    unsigned arrived[] = {0, 0, 0, 0, 0, 0};
    for (uint64_t i = 0; i < 5; ++i)
        assert_int_equal(receive(&b, i, 200 * i, 200), 0);
    struct ibv_send_wr wr = send_wr(&a, &sge, ah, &b);
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    for (uint32_t i = 1; i <= 5; ++i) {
        wr.imm_data = htonl(i);
        fill(a.memory, 64, i);
        post_wr_and_expect(&a, wr, IBV_WC_SUCCESS);
        memset(a.memory, 0, 64);
    }
    for (size_t i = 0; i < 4; ++i) {
        struct ibv_wc wc = next_completion(b.cq);
        assert_int_equal(wc.wr_id, i);
        const uint32_t which = ntohl(wc.imm_data);
        assert_in_range(which, 1, 5);
        ++arrived[which];
        fill(a.memory, 64, which);
        assert_memory_equal(b.memory + 200 * i + header, a.memory, 64);
    }
    assert_memory_equal(arrived, times, sizeof(times));
    expect_nothing(b.cq);
    post_wr_and_expect(&a, wr, IBV_WC_LOC_QP_OP_ERR);
    assert_int_equal(a.qp->state, IBV_QPS_SQE);
}

GROUP_FIXTURE(open_the_device, close_the_device)

int main(int argc, char **argv)
{
    if (argc > 1) {
        setenv("SOFTRDMA_FAULT",
                "drop:nth=1; duplicate:nth=1; delay=3600000000:nth=1; delay=1000:nth=1; status=loc_qp_op:nth=2", 1);
        cmocka_set_test_filter("test_faults");
    } else {
        cmocka_set_skip_filter("test_faults");
    }
    return run_registered_tests();
}
