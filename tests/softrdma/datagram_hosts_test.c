/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams between two hosts, which are network namespaces: the effect of injected faults, and of a third host
 * whose packets come from no queue pair. datagram_hosts_test.sh creates the networks. The receiver is a process of
 * its own. It assumes only that packets to one socket stay in order.
 * usage: datagram_hosts_test LAUNCHER */
#include "datagrams.h"
#include "registered_tests.h"
#include "remote.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* A program without the device that sends packets to a datagram queue pair. */
enum {
    marker_qkey = 0x4321,
    packet_headers = 20,
    injector_payload = 44,
    max_packet_size = 65000,
    max_valid_size = packet_headers + 4 + 4096, /* valid size with immediate data */
    few = 16,                                   /* number of packets after which the sender pauses for the receiver */
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

static struct sockaddr_in end_of(const char *address)
{
    struct sockaddr_in end = {.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, address, &end.sin_addr), 1);
    return end;
}

static struct injector open_injector(const char *own, const char *to, uint32_t qpn)
{
    struct injector s = {.raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW), .to = end_of(to), .qpn = qpn, .seed = qpn};
    s.udp = open_udp(own, &s.own);
    s.to.sin_port = htons((uint16_t)(qpn >> 8));
    assert_true(s.raw >= 0);
    return s;
}

static void close_injector(struct injector *s)
{
    close(s->udp);
    close(s->raw);
}

static void set_word(struct packet *p, size_t at, uint32_t value)
{
    const uint32_t big_endian = htonl(value);
    memcpy(p->bytes + at, &big_endian, sizeof(big_endian));
}

/* Returns a valid packet for a queue pair with that Q_Key. */
static struct packet valid_packet(const struct injector *s, uint32_t key)
{
    struct packet p = {.size = packet_headers + injector_payload, .bytes = {0x64, 0, 0xff, 0xff}};
    set_word(&p, packet_destination, s->qpn);
    set_word(&p, packet_qkey, key);
    set_word(&p, packet_source, (uint32_t)ntohs(s->own.sin_port) << 8 | 1);
    return p;
}

static void send_packet(const struct injector *s, const struct packet *p)
{
    ssize_t sent = 0;
    do
        sent = sendto(s->udp, p->bytes, p->size, 0, (const struct sockaddr *)&s->to, sizeof(s->to));
    while (sent < 0 && errno == ECONNREFUSED); /* error of an earlier packet */
    assert_int_equal(sent, (ssize_t)p->size);
}

/* Sends a UDP packet with a forged source address. Its length field exceeds its size by `longer` bytes. */
static void send_forged(const struct injector *s, const char *from, const struct packet *p, int longer)
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

/* Sends wrong Q_Keys, flipped header bits, invalid sizes and random bytes. */
static void send_all_wrong(struct injector *s, const char *from, const struct packet *right)
{
    send_wrong_keys(s, from, right);
    send_wrong_bits(s, from, right);
    send_wrong_sizes(s, from, right);
    send_noise(s, from);
}

/* Like send_all_wrong(), with a forged source address, and with invalid UDP lengths. */
static void send_forged_packets(struct injector *s, const struct packet *right, const char *from)
{
    send_all_wrong(s, from, right);
    /* Length beyond the packet, length 0, and truncated headers. */
    const int wrong[] = {1, 1000, -(int)(right->size + 8), -(int)right->size, -(int)(right->size - packet_headers + 1)};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i)
        send_forged(s, from, right, wrong[i]);
}

static const char *receivers_network;
static const char *injector_network;

enum {
    untouched = 0xee,
    datagrams = 300,
    window = 8, /* maximum number in flight, besides the delayed ones */
    delayed_at_most = 12,
};

/* Shared memory of the processes of a test. */
struct words {
    atomic_uint qpn[2]; /* queue pairs of the receiver */
    atomic_uint arrived;
    atomic_uint latest; /* number of the datagram that arrived last */
    atomic_uint finished;
};
static struct words *words;

/* Starts a process in another network namespace. It exits with 0 on success, at the first failed assertion, and with
 * the test. */
static pid_t start_in(const char *network, void (*work)(void))
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    const int fd = open(network, O_RDONLY);
    assert_int_equal(setns(fd, CLONE_NEWNET), 0);
    close(fd);
    work();
    exit(0);
}

static void begin(void)
{
    words = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(words, MAP_FAILED);
}

static struct ibv_ah *handle_between(const struct side *from, const char *own, const char *other)
{
    struct ibv_ah_attr attr = address_of(own);
    assert_int_equal(inet_pton(AF_INET6, other, &attr.grh.dgid), 1);
    struct ibv_ah *ah = ibv_create_ah(from->pd, &attr);
    assert_non_null(ah);
    return ah;
}

static void expect_ready(struct ibv_qp *qp)
{
    assert_int_equal(state_of(qp), IBV_QPS_RTS);
    expect_unreadable(device->async_fd, 0);
}

static size_t length_of(unsigned number)
{
    return number * 577 % (mtu + 1);
}

/* Number of times that each datagram arrives under the rules of `lossy`. The first rule that fires decides. */
static const char lossy[] = "drop:op=send_imm,every=5; duplicate:op=send_imm,every=3; delay=400000:op=send_imm,every=6,"
                            "count=12";
struct fate {
    unsigned copies;
    bool late;
};
static unsigned foresee(struct fate fates[datagrams])
{
    unsigned drops = 0, duplicates = 0, delays = 0, all = 0;
    for (unsigned i = 0; i < datagrams; ++i) {
        fates[i] = (struct fate){.copies = 1};
        if (++drops % 5 == 0)
            fates[i].copies = 0;
        else if (++duplicates % 3 == 0)
            fates[i].copies = 2;
        else
            fates[i].late = ++delays % 6 == 0 && delays / 6 <= delayed_at_most;
        all += fates[i].copies;
    }
    return all;
}

/* Checks the slot of a datagram: its content, and that the rest of the slot is unchanged. */
static void expect_whole(uint8_t *at, const struct ibv_wc *wc, unsigned number)
{
    static uint8_t expected[mtu];
    const size_t length = length_of(number);
    assert_int_equal(wc->byte_len, header + length);
    fill(expected, length, number);
    assert_memory_equal(at + header, expected, length);
    for (size_t i = header + length; i < slot; ++i)
        assert_int_equal(at[i], untouched);
    memset(at, untouched, slot);
}

static void expect_untouched(const struct side *b, size_t from)
{
    for (size_t i = from; i < b->size; ++i)
        assert_int_equal(b->memory[i], untouched);
}

static struct side open_receiver(struct ibv_srq **srq)
{
    assert_int_equal(open_the_device(NULL), 0);
    *srq = create_srq(ibv_alloc_pd(device), slots);
    struct side b = open_side(*srq, 0);
    to_rts(b.qp);
    memset(b.memory, untouched, b.size);
    for (size_t i = 0; i < slots; ++i)
        assert_int_equal(receive(&b, i, i * slot, slot), 0);
    atomic_store(&words->qpn[0], b.qp->qp_num);
    return b;
}

static struct ibv_wc next_whole(struct side *b, unsigned *number)
{
    const struct ibv_wc wc = next_completion(b->cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    *number = ntohl(wc.imm_data);
    expect_whole(b->memory + wc.wr_id * slot, &wc, *number);
    return wc;
}

static void receive_what_is_left(void)
{
    struct ibv_srq *srq;
    struct fate fates[datagrams];
    struct side b = open_receiver(&srq);
    unsigned all = foresee(fates), overtaken = 0, newest = 0, number = 0;
    for (unsigned i = 0; i < all; ++i) {
        const struct ibv_wc wc = next_whole(&b, &number);
        assert_int_equal(receive(&b, wc.wr_id, wc.wr_id * slot, slot), 0);
        assert_true(number < datagrams && fates[number].copies-- > 0);
        overtaken += fates[number].late && number < newest;
        newest = number > newest ? number : newest;
        atomic_fetch_add(&words->arrived, 1);
    }
    assert_true(overtaken > 0);
    expect_ready(b.qp);
    /* The sender continues without faults. */
    for (unsigned i = 0; i < slots / 2; ++i) {
        next_whole(&b, &number);
        assert_int_equal(number, i);
        atomic_fetch_add(&words->arrived, 1);
    }
    AWAIT(atomic_load(&words->finished) >= 1);
    expect_no_completion(b.cq);
    expect_untouched(&b, 0);
}

static void send_number(struct side *a, struct ibv_ah *ah, unsigned number)
{
    struct ibv_sge sge = {(uintptr_t)a->memory, (uint32_t)length_of(number), a->mr->lkey};
    fill(a->memory, sge.length, number);
    const struct ibv_send_wr wr = {.wr_id = number,
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_SEND_WITH_IMM,
            .send_flags = IBV_SEND_SIGNALED,
            .imm_data = htonl(number),
            .wr.ud = {.ah = ah, .remote_qpn = atomic_load(&words->qpn[0]), .remote_qkey = qkey}};
    post_wr_and_expect(a, wr, IBV_WC_SUCCESS);
}

/* Path of the launcher: "softrdma fault" injects faults from another process. */
static const char *launcher;
static void end_faults(void)
{
    char command[512];
    snprintf(command, sizeof(command), "'%s' fault %d off", launcher, (int)getpid());
    assert_int_equal(system(command), 0);
}

static void lose_repeat_and_delay(const char *own, const char *other)
{
    begin();
    const pid_t receiver = start_in(receivers_network, receive_what_is_left);
    setenv("SOFTRDMA_FAULT", lossy, 1);
    assert_int_equal(open_the_device(NULL), 0);
    struct side a = open_ready();
    struct ibv_ah *ah = handle_between(&a, own, other);
    struct fate fates[datagrams];
    const unsigned all = foresee(fates);
    unsigned sent = 0;
    AWAIT(atomic_load(&words->qpn[0]) >= 1);
    for (unsigned i = 0; i < datagrams; ++i) {
        AWAIT(atomic_load(&words->arrived) + window >= sent);
        send_number(&a, ah, i);
        sent += fates[i].late ? 0 : fates[i].copies;
    }
    AWAIT(atomic_load(&words->arrived) >= all);
    end_faults();
    for (unsigned i = 0; i < slots / 2; ++i) {
        AWAIT(atomic_load(&words->arrived) >= all + i);
        send_number(&a, ah, i);
    }
    AWAIT(atomic_load(&words->arrived) >= all + slots / 2);
    expect_ready(a.qp);
    atomic_store(&words->finished, 1);
    assert_int_equal(exit_code_of(receiver), 0);
}

TEST_IN_OWN_PROCESS(test_faults_over_ipv4)
{
    lose_repeat_and_delay("::ffff:10.77.0.1", "::ffff:10.77.0.2");
}

TEST_IN_OWN_PROCESS(test_faults_over_ipv6)
{
    lose_repeat_and_delay("fd77::1", "fd77::2");
}

/* Two queue pairs share one socket. Datagrams for the second one were sent after all datagrams for the first one. */
static void reject_foreign_packets(void)
{
    assert_int_equal(open_the_device(NULL), 0);
    struct side b = open_ready();
    struct side c = open_ready();
    struct ibv_qp_attr other = {.qkey = marker_qkey};
    assert_int_equal(ibv_modify_qp(c.qp, &other, IBV_QP_QKEY), 0);
    assert_int_equal(b.qp->qp_num >> 8, c.qp->qp_num >> 8);
    memset(b.memory, untouched, b.size);
    memset(c.memory, untouched, c.size);
    for (uint64_t i = 0; i < 3; ++i) {
        assert_int_equal(receive(&c, i, i * slot, slot), 0);
        if (i < 2)
            assert_int_equal(receive(&b, i, i * slot, slot), 0);
    }
    atomic_store(&words->qpn[1], c.qp->qp_num);
    atomic_store(&words->qpn[0], b.qp->qp_num);
    expect_completion(c.cq, 0, IBV_WC_SUCCESS); /* all invalid datagrams have been sent before */
    expect_no_completion(b.cq);
    expect_untouched(&b, 0);
    expect_untouched(&c, slot);
    atomic_store(&words->finished, 1);
    /* The two valid ones. The second has a forged source address: only the Q_Key is checked. */
    for (uint64_t i = 0; i < 2; ++i) {
        const struct ibv_wc wc = expect_completion(b.cq, i, IBV_WC_SUCCESS);
        assert_int_equal(wc.byte_len, header + injector_payload);
        assert_int_equal(b.memory[i * slot + 23], i == 0 ? 1 : 77); /* the last byte of the source */
        memset(b.memory + i * slot, untouched, header + injector_payload);
    }
    /* Further datagrams find no receive, and are dropped immediately. */
    expect_completion(c.cq, 1, IBV_WC_SUCCESS);
    expect_untouched(&b, 0);
    assert_int_equal(receive(&b, 5, 0, slot), 0);
    atomic_store(&words->finished, 2);
    expect_completion(c.cq, 2, IBV_WC_SUCCESS);
    expect_no_completion(b.cq);
    expect_untouched(&b, 0);
    expect_ready(b.qp);
    expect_ready(c.qp);
}

static void inject_packets(void)
{
    AWAIT(atomic_load(&words->qpn[0]) >= 1);
    struct injector s = open_injector("10.78.0.1", "10.78.0.2", atomic_load(&words->qpn[0]));
    const struct packet right = valid_packet(&s, qkey);
    struct packet marker = valid_packet(&s, marker_qkey);
    set_word(&marker, packet_destination, atomic_load(&words->qpn[1]));
    send_all_wrong(&s, NULL, &right);
    send_forged_packets(&s, &right, "10.77.0.1");
    send_forged_packets(&s, &right, "10.78.0.77");
    send_packet(&s, &marker);
    AWAIT(atomic_load(&words->finished) >= 1);
    send_packet(&s, &right);
    send_forged(&s, "10.78.0.77", &right, 0);
    for (unsigned i = 0; i < 10; ++i)
        send_packet(&s, &right);
    send_packet(&s, &marker);
    AWAIT(atomic_load(&words->finished) >= 2);
    send_all_wrong(&s, NULL, &right);
    send_packet(&s, &marker);
    close_injector(&s);
}

TEST(test_foreign_packets)
{
    begin();
    const pid_t receiver = start_in(receivers_network, reject_foreign_packets);
    const pid_t injector = start_in(injector_network, inject_packets);
    assert_int_equal(exit_code_of(injector), 0);
    assert_int_equal(exit_code_of(receiver), 0);
}

/* Sends as many packets as possible, until the test ends. */
static void flood(void)
{
    AWAIT(atomic_load(&words->qpn[0]) >= 1);
    struct injector s = open_injector("10.78.0.1", "10.78.0.2", atomic_load(&words->qpn[0]));
    const struct packet right = valid_packet(&s, qkey);
    while (atomic_load(&words->finished) == 0)
        send_all_wrong(&s, NULL, &right);
    close_injector(&s);
}

static void receive_beside_a_flood(void)
{
    struct ibv_srq *srq;
    struct side b = open_receiver(&srq);
    unsigned number = 0;
    do {
        const struct ibv_wc wc = next_whole(&b, &number);
        assert_int_equal(receive(&b, wc.wr_id, wc.wr_id * slot, slot), 0);
        assert_true(number == atomic_load(&words->latest) || number == atomic_load(&words->latest) + 1);
        atomic_store(&words->latest, number);
    } while (number < datagrams / 3);
    expect_ready(b.qp);
}

/* Valid datagrams arrive complete. The sender repeats datagrams without a response, because the flood can displace any
 * of them. */
TEST_IN_OWN_PROCESS(test_flood)
{
    begin();
    const pid_t receiver = start_in(receivers_network, receive_beside_a_flood);
    const pid_t injector = start_in(injector_network, flood);
    assert_int_equal(open_the_device(NULL), 0);
    struct side a = open_ready();
    struct ibv_ah *ah = handle_between(&a, "::ffff:10.77.0.1", "::ffff:10.77.0.2");
    AWAIT(atomic_load(&words->qpn[0]) >= 1);
    for (unsigned i = 1; i <= datagrams / 3; ++i) {
        for (unsigned ms = 0; atomic_load(&words->latest) < i; ++ms) {
            assert_true(ms < time_limit_ms);
            if (ms % 50 == 0)
                send_number(&a, ah, i);
            poll(NULL, 0, 1);
        }
    }
    atomic_store(&words->finished, 1);
    assert_int_equal(exit_code_of(receiver), 0);
    assert_int_equal(exit_code_of(injector), 0);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: datagram_hosts_test LAUNCHER NETWORK_OF_THE_RECEIVER NETWORK_OF_THE_STRANGER\n");
        return 2;
    }
    launcher = argv[1];
    receivers_network = argv[2];
    injector_network = argv[3];
    return run_registered_tests();
}
