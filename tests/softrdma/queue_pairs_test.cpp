// SPDX-License-Identifier: BSD-3-Clause
// White-box: ibv_modify_qp() connects many queue pairs at once, to a slow peer and in a process with few descriptors.
#include "starved_progress.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <vector>

extern "C" {
#include "fixture.h"
void in_own_process(void (*test)(void)); // declared in remote.h, which is not valid C++
}

using namespace softrdma;

namespace
{

std::atomic<unsigned> accept_delay_us{0}; // duration of each accept4()

} // namespace

// Replaces the function of the C library.
extern "C" int accept4(int fd, sockaddr *address, socklen_t *size, int flags)
{
    if (const unsigned duration = accept_delay_us; duration != 0) {
        static std::mutex one_at_a_time;
        const std::lock_guard lock(one_at_a_time);
        usleep(duration);
    }
    return static_cast<int>(syscall(SYS_accept4, fd, address, size, flags));
}

namespace
{

struct end_of_connection {
    ibv_pd *pd;
    ibv_cq *cq;
    std::vector<ibv_qp *> qps;

    explicit end_of_connection(unsigned count)
        : pd(ibv_alloc_pd(device)), cq(ibv_create_cq(device, static_cast<int>(4 * count), nullptr, nullptr, 0))
    {
        assert_non_null(pd);
        assert_non_null(cq);
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = cq;
        attr.qp_type = IBV_QPT_RC;
        attr.sq_sig_all = 1;
        attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        for (unsigned i = 0; i < count; ++i) {
            qps.push_back(ibv_create_qp(pd, &attr));
            assert_non_null(qps.back());
            to_init(qps.back());
        }
    }
    ~end_of_connection()
    {
        for (ibv_qp *qp : qps)
            assert_int_equal(ibv_destroy_qp(qp), 0);
        assert_int_equal(ibv_destroy_cq(cq), 0);
        assert_int_equal(ibv_dealloc_pd(pd), 0);
    }
    end_of_connection(const end_of_connection &) = delete;
    end_of_connection &operator=(const end_of_connection &) = delete;
};

void to_rts(ibv_qp *qp, std::uint32_t peer)
{
    ibv_qp_attr attr = connection_to(device, peer);
    attr.ah_attr.is_global = 0; // the peer is on this host
    attr.timeout = 10;
    attr.retry_cnt = 1;
    assert_int_equal(modify_to_rtr(qp, &attr), 0);
    assert_int_equal(modify_to_rts(qp, &attr), 0);
}

// Sends one message from each queue pair of `from` to its peer in `to`. The queue pair with the larger number connects,
// so `to` connects.
void send_all(const end_of_connection &from, const end_of_connection &to)
{
    for (std::size_t i = 0; i < from.qps.size(); ++i) {
        to_rts(from.qps[i], to.qps[i]->qp_num);
        to_rts(to.qps[i], from.qps[i]->qp_num);
        assert_int_equal(post_empty_receive(to.qps[i], 0), 0);
        assert_int_equal(post_empty_send(from.qps[i]), 0);
    }
}

void expect_all(const end_of_connection &from, ibv_wc_status status)
{
    for (std::size_t i = 0; i < from.qps.size(); ++i)
        assert_string_equal(ibv_wc_status_str(next_completion(from.cq).status), ibv_wc_status_str(status));
}

// The tests that fork are first, before this process has used the device.

constexpr unsigned few = 128;

void limit_descriptors(rlim_t soft, rlim_t hard)
{
    const rlimit limit{.rlim_cur = soft, .rlim_max = hard};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// Connects `count` queue pairs with a soft limit of `few`. The soft limit must be `expected` afterwards.
void connect_below_the_hard_limit(unsigned count, rlim_t expected)
{
    limit_descriptors(few, 8 * few);
    open_the_device(nullptr);
    {
        const end_of_connection from(count);
        const end_of_connection to(count);
        send_all(from, to);
        expect_all(from, IBV_WC_SUCCESS);
    }
    rlimit limit{};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, expected);
}

void connect_without_descriptors()
{
    limit_descriptors(few, few);
    open_the_device(nullptr);
    const int messages = memfd_create("messages", 0);
    assert_true(messages >= 0);
    assert_true(dup2(messages, STDERR_FILENO) >= 0);
    {
        const end_of_connection from(2);
        const end_of_connection to(2);
        while (dup(STDERR_FILENO) >= 0) {
        }
        send_all(from, to);
        expect_all(from, IBV_WC_RETRY_EXC_ERR);
    }
    std::string text(4096, '\0');
    text.resize(static_cast<std::size_t>(pread(messages, text.data(), text.size(), 0)));
    assert_non_null(strstr(text.c_str(), "softrdma: "));
    assert_non_null(strstr(text.c_str(), "(raise the hard limit: ulimit -Hn"));
    assert_int_equal(std::count(text.begin(), text.end(), '\n'), 1);
}

// With AddressSanitizer, UBSan opens a pipe to check the type of an object, so a lack of descriptors ends the process.
void in_own_process_without_descriptors([[maybe_unused]] void (*test)(void))
{
#ifdef __SANITIZE_ADDRESS__
    skip();
#else
    in_own_process(test);
#endif
}

TEST(many_connections_raise_the_soft_limit)
{
    in_own_process_without_descriptors([] { connect_below_the_hard_limit(few, 8 * few); });
}

// A program with few connections may use select(2), so the device must not raise its limit.
TEST(few_connections_keep_the_soft_limit)
{
    in_own_process([] { connect_below_the_hard_limit(2, few); });
}

TEST(a_lack_of_descriptors_is_reported_once)
{
    in_own_process_without_descriptors(connect_without_descriptors);
}

// The retry timeout, 1.5 to 3 s here, is much shorter than the time until the peer accepts the last connection.
DEFINE_TEST(a_slow_peer_with_many_connections_causes_no_timeout, open_the_device, close_the_device)
{
    constexpr unsigned count = 100;
    const end_of_connection from(count);
    const end_of_connection to(count);
    accept_delay_us = 40'000;
    send_all(from, to);
    expect_all(from, IBV_WC_SUCCESS);
    accept_delay_us = 0;
}

// Returns a socket that listens on a port below that of `qp`, so that the queue pair is the side that connects.
int listen_below(const ibv_qp *qp, std::uint16_t &port)
{
    for (port = static_cast<std::uint16_t>((qp->qp_num >> 8) - 1); port > 1024; --port) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (bind(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0 && listen(fd, 1) == 0)
            return fd;
        close(fd);
    }
    return -1;
}

// A busy peer drops connections without a message. The message must not depend on the progress thread, which is busy.
DEFINE_TEST(the_connecting_call_sends_the_first_message, open_the_device, close_the_device)
{
    const end_of_connection from(1);
    std::uint16_t port = 0;
    const int listening = listen_below(from.qps[0], port);
    assert_true(listening >= 0);
    int accepted = -1;
    ssize_t received = -1;
    {
        const starved_progress starved;
        to_rts(from.qps[0], static_cast<std::uint32_t>(port) << 8);
        accepted = accept(listening, nullptr, nullptr);
        char byte = 0;
        received = recv(accepted, &byte, 1, MSG_DONTWAIT);
    }
    assert_true(accepted >= 0);
    assert_int_equal(received, 1);
    close(accepted);
    close(listening);
}

} // namespace
