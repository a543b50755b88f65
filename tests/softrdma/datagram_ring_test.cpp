// SPDX-License-Identifier: BSD-3-Clause
// White-box: the rings through which processes of one host send datagrams, and what a process that breaks their rules
// gets of another one.
#include "transport/shm/datagram_ring.hpp"
#include "transport/shm/datagram_rx.hpp"
#include "transport/shm/fd_message.hpp"
#include "verbs/tap.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>

extern "C" {
#include "datagrams.h"
}

using namespace softrdma;

namespace
{

constexpr std::uint16_t own_port = 0x1111;
constexpr std::uint16_t peer_port = 0x2222;

network_address loopback_address()
{
    network_address address{};
    address[10] = address[11] = std::byte{0xff};
    address[12] = std::byte{127};
    address[15] = std::byte{1};
    return address;
}

const datagram_route route{loopback_address(), loopback_address(), 0};

std::array<std::byte, max_datagram_payload> pattern(std::uint32_t seed)
{
    std::array<std::byte, max_datagram_payload> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(seed * 31 + i * 7 + i / 256);
    return bytes;
}

struct ring {
    explicit ring(std::uint64_t first_position = 0) : first(first_position) {}

    const std::uint64_t first;
    unique_fd file = create_ring_file();
    ring_writer writer{map_ring(file.get()), first};
    ring_reader reader{map_ring(file.get()), own_port, peer_port, first};
    ring_memory raw = map_ring(file.get());
    datagram found;
    network_address source;
    network_address destination;

    ring_writer::outcome put(std::uint32_t psn, std::span<const std::byte> bytes)
    {
        const iovec piece{const_cast<std::byte *>(bytes.data()), bytes.size()};
        const datagram d{.dest_qpn = 0x111107, .source_qpn = 0x222209, .psn = psn, .qkey = qkey, .imm_data = 5};
        return writer.put(d, route, {&piece, 1}, bytes.size());
    }
    ring_writer::outcome put(std::uint32_t psn, std::size_t length)
    {
        const auto bytes = pattern(psn);
        return put(psn, std::span(bytes).first(length));
    }
    ring_reader::outcome take() { return reader.take(found, source, destination); }
    ring_record &record(std::size_t offset) { return *reinterpret_cast<ring_record *>(raw.get() + page + offset); }
};

void assert_next(ring &r, std::uint32_t psn, std::size_t length)
{
    assert_true(r.take() == ring_reader::outcome::datagram);
    assert_int_equal(r.found.psn, psn);
    assert_int_equal(r.found.payload.size(), length);
    assert_int_equal(r.found.dest_qpn, 0x111107);
    assert_int_equal(r.found.source_qpn, 0x222209);
    assert_int_equal(r.found.qkey, qkey);
    assert_true(r.source == route.source && r.destination == route.destination);
    const auto expected = pattern(psn);
    assert_memory_equal(r.found.payload.data(), expected.data(), length);
}

// Many laps, with all lengths, alone and in bursts. Each accepted datagram must arrive exactly once.
void expect_every_datagram_once(std::uint64_t first)
{
    ring r(first);
    std::uint32_t sent = 0;
    std::uint32_t taken = 0;
    const auto length_of = [](std::uint32_t n) { return std::size_t{n} * 97 % (max_datagram_payload + 1); };
    for (std::uint32_t burst : {1u, 1u, 700u, 3u, 5000u, 1u, 64u, 2000u, 1u, 900u}) {
        for (std::uint32_t i = 0; i < burst && r.put(sent, length_of(sent)) != ring_writer::outcome::full; ++i)
            ++sent;
        for (; taken < sent; ++taken)
            assert_next(r, taken, length_of(taken));
        assert_true(r.take() == ring_reader::outcome::nothing);
    }
    assert_true(sent > 3000); // several laps
}

TEST(test_every_datagram_once)
{
    constexpr std::uint64_t beyond_32_bits = std::uint64_t{1} << 32;
    for (const std::uint64_t before : {std::size_t{beyond_32_bits}, cache_line, std::size_t{4160}, ring_data_size})
        expect_every_datagram_once(beyond_32_bits - before);
}

TEST(test_full_loses_the_newest)
{
    ring r;
    std::uint32_t sent = 0;
    const auto length_of = [](std::uint32_t n) { return n % 2 == 0 ? std::size_t{8} : max_datagram_payload; };
    while (r.put(sent, length_of(sent)) != ring_writer::outcome::full)
        ++sent;
    assert_true(sent > 1000);
    for (std::uint32_t i = 0; i < sent; ++i)
        assert_next(r, i, length_of(i));
    assert_true(r.take() == ring_reader::outcome::nothing);
    assert_true(r.put(7, 100) == ring_writer::outcome::sent);
    assert_next(r, 7, 100);
}

// Sends until the ring is full, while no reader takes datagrams. Returns the number of datagrams.
std::uint32_t fill(ring &r, std::uint32_t first, std::size_t length)
{
    std::uint32_t count = 0;
    while (r.put(first + count, length) != ring_writer::outcome::full)
        ++count;
    return count;
}

// Datagrams that a reader has taken occupy no space: an emptied ring can contain as many as a new one.
TEST(test_an_emptied_ring_holds_as_many_as_a_new_one)
{
    for (const std::size_t length : {std::size_t{400}, std::size_t{1000}, max_datagram_payload}) {
        ring fresh;
        const std::uint32_t all = fill(fresh, 0, length);
        // The space of the last datagram before the end of the data, and of the line after the newest one, can be lost.
        assert_in_range(all * (whole_lines(sizeof(ring_record) + length)),
                ring_data_size - 2 * whole_lines(sizeof(ring_record) + length), ring_data_size);
        ring used;
        std::uint32_t sent = 0;
        for (const std::uint32_t alone : {1u, 16u, 17u, 1100u, 2000u, 3u}) {
            for (std::uint32_t i = 0; i < alone; ++i, ++sent) {
                assert_true(used.put(sent, length) == ring_writer::outcome::sent);
                assert_next(used, sent, length);
                assert_true(used.take() == ring_reader::outcome::nothing);
            }
            const std::uint32_t held = fill(used, sent, length);
            assert_in_range(held, all - 1, all); // the end of the data may lie within a datagram
            for (const std::uint32_t end = sent + held; sent < end; ++sent)
                assert_next(used, sent, length);
            assert_true(used.take() == ring_reader::outcome::nothing);
        }
    }
}

// Returns a payload whose lines look like records. The first has that sequence number, each other one that of its
// distance, or the same one.
std::array<std::byte, max_datagram_payload> forge(std::uint64_t sequence, bool counts)
{
    std::array<std::byte, max_datagram_payload> forged{};
    for (std::size_t i = 8; i + 8 <= forged.size(); i += cache_line) {
        memcpy(&forged[i], &sequence, sizeof(sequence));
        sequence += counts ? cache_line : 0;
    }
    return forged;
}

// A program sends payloads that look like later records, at every position of a lap. Then short datagrams end at every
// position.
TEST(test_payload_is_no_record)
{
    ring r;
    constexpr std::uint32_t warm = 64 << 10;
    std::uint32_t sent = 0;
    for (std::size_t lap = 0; lap < 2; ++lap) {
        for (std::size_t at = 0; at + 2 * page < ring_data_size; at += 4160, ++sent) {
            const auto forged = forge((lap + 1) * ring_data_size + at + cache_line + 1, true);
            assert_true(r.put(sent, forged) != ring_writer::outcome::full);
            // One datagram remains; otherwise the ring would restart.
            if (sent > 0)
                assert_true(r.take() == ring_reader::outcome::datagram);
        }
        while (r.take() == ring_reader::outcome::datagram)
            ;
        assert_true(sent * 4160u > warm);
    }
    for (std::uint32_t i = 0; i < 3000; ++i) {
        const std::size_t length = i % 500;
        assert_true(r.put(i, length) != ring_writer::outcome::full);
        assert_next(r, i, length);
        assert_true(r.take() == ring_reader::outcome::nothing);
    }
}

// After a restart, a burst covers the former offset of the next position, with payloads that look like its record.
TEST(test_payload_at_the_former_place_is_no_record)
{
    ring r;
    std::uint32_t sent = 0;
    for (std::size_t position = 0; position < 64 << 10; ++sent, position += 4160) {
        assert_true(r.put(sent, max_datagram_payload) == ring_writer::outcome::sent);
        assert_next(r, sent, max_datagram_payload);
    }
    assert_true(r.take() == ring_reader::outcome::nothing);
    const auto forged = forge(std::uint64_t{sent} * 4160 + 1, false);
    std::uint32_t taken = sent;
    while (r.put(sent, forged) != ring_writer::outcome::full)
        ++sent;
    assert_true(sent - taken > 1000);
    for (; taken < sent; ++taken) {
        assert_true(r.take() == ring_reader::outcome::datagram);
        assert_int_equal(r.found.psn, taken);
        assert_memory_equal(r.found.payload.data(), forged.data(), forged.size());
    }
    assert_true(r.take() == ring_reader::outcome::nothing);
}

// Payloads look like records that the next restart would store at their offsets. Each restart is between two datagrams
// of the same length. The first of these has cleared the line after the second.
TEST(test_payload_is_no_record_after_a_restart)
{
    constexpr std::uint64_t large = whole_lines(sizeof(ring_record) + max_datagram_payload);
    constexpr std::uint64_t small = whole_lines(sizeof(ring_record) + 64);
    constexpr std::uint64_t warm = 64 << 10;
    constexpr std::uint64_t first_large = 15;
    constexpr std::uint64_t pass = first_large * large + (warm - first_large * large + small - 1) / small * small;
    ring r;
    auto &control = *reinterpret_cast<ring_control *>(r.raw.get());
    std::uint32_t sent = 0;
    std::uint64_t position = 0;
    for (std::uint64_t restart = 0; restart < 10 * pass; restart = position) {
        for (; position < restart + warm; ++sent) {
            const bool forges = restart / warm % 2 == 0 && position < restart + first_large * large;
            const auto forged = forge(pass + position + cache_line + 1, true);
            const std::array<std::byte, 64> plain{};
            const auto payload = forges ? std::span<const std::byte>(forged) : plain;
            assert_true(r.put(sent, payload) == ring_writer::outcome::sent);
            position += forges ? large : small;
            assert_true(r.take() == ring_reader::outcome::datagram);
            assert_int_equal(r.found.psn, sent);
            assert_true(r.take() == ring_reader::outcome::nothing);
            assert_int_equal(control.restart.load(), restart);
        }
    }
}

// A writer that restarts whenever the ring is empty, and a concurrent reader. Each word of a datagram is its number.
TEST(test_restarts_while_the_reader_reads)
{
    ring r;
    constexpr std::uint32_t count = 200'000;
    const auto words_of = [](std::uint32_t n) { return n % 61 + 1; };
    std::thread writer([&] {
        std::array<std::uint64_t, 61> words;
        for (std::uint32_t n = 0; n < count;) {
            words.fill(n);
            const auto bytes = std::as_bytes(std::span(words).first(words_of(n)));
            r.put(n, bytes) == ring_writer::outcome::full ? sched_yield() : static_cast<int>(++n);
        }
    });
    std::array<std::uint64_t, 61> words;
    for (std::uint32_t n = 0; n < count;) {
        const auto found = r.take();
        if (found == ring_reader::outcome::nothing)
            continue;
        const std::size_t length = words_of(n) * sizeof(words[0]);
        if (found == ring_reader::outcome::broken || r.found.psn != n || r.found.payload.size() != length)
            abort(); // the writer would not terminate
        memcpy(words.data(), r.found.payload.data(), length);
        if (std::count(words.begin(), words.begin() + words_of(n), n) != words_of(n))
            abort();
        ++n;
    }
    writer.join();
    assert_int_not_equal(reinterpret_cast<ring_control *>(r.raw.get())->restart.load(), 0);
}

// The sequence number is stored last.
TEST(test_half_a_datagram_is_none)
{
    ring r;
    assert_true(r.put(0, 64) == ring_writer::outcome::sent);
    assert_next(r, 0, 64);
    ring_record &next = r.record(128);
    next.length = 64;
    next.qkey = qkey;
    assert_true(r.take() == ring_reader::outcome::nothing);
    next.sequence = 7; // sequence of another position
    assert_true(r.take() == ring_reader::outcome::nothing);
}

TEST(test_wrong_records)
{
    const auto outcome_of = [](auto change) {
        ring r;
        assert_true(r.put(0, 64) == ring_writer::outcome::sent);
        change(r.record(0));
        return r.take();
    };
    using outcome = ring_reader::outcome;
    assert_true(outcome_of([](ring_record &) {}) == outcome::datagram);
    assert_true(outcome_of([](ring_record &r) { r.length = max_datagram_payload + 1; }) == outcome::broken);
    assert_true(outcome_of([](ring_record &r) { r.flags = 8; }) == outcome::broken);
    assert_true(outcome_of([](ring_record &r) { r.flags = ring_skip; }) == outcome::broken);
    assert_true(outcome_of([](ring_record &r) { r.flags = ring_skip | 1; }) == outcome::broken);
}

// A reader with false positions can only make the writer lose datagrams.
TEST(test_lying_reader)
{
    ring r;
    auto &control = *reinterpret_cast<ring_control *>(r.raw.get());
    for (const std::uint64_t lie : {UINT64_MAX, std::uint64_t{1} << 40, std::uint64_t{1} << 63}) {
        for (int i = 0; i < 3000; ++i) {
            control.taken = lie;
            r.put(0, max_datagram_payload);
        }
    }
    assert_true(r.put(0, max_datagram_payload) == ring_writer::outcome::full);
}

struct side receiver;

int open_receiver(void **state)
{
    const int error = open_the_device(state);
    receiver = open_ready();
    return error;
}

int close_receiver(void **state)
{
    close_with_pd(&receiver);
    return close_the_device(state);
}

GROUP_FIXTURE(open_receiver, close_receiver)

void post_receive(std::uint64_t id)
{
    assert_int_equal(receive(&receiver, id, 0, 8192), 0);
}

void expect_nothing()
{
    expect_no_completion_for(receiver.cq, 100);
}

// A process that offers a ring. It is simulated by this process with another port.
struct ring_peer {
    unique_fd socket = open_local_socket();
    unique_fd file = create_ring_file();
    ring_writer writer{map_ring(file.get())};
    ring_memory raw = map_ring(file.get());
    received_fds fds;

    bool offer(int fd, std::uint32_t port = peer_port, std::uint32_t version = ring_offer{}.version)
    {
        const auto address = fd_server_address::of_datagrams(static_cast<std::uint16_t>(receiver.qp->qp_num >> 8));
        assert_int_equal(connect(socket.get(), address.get(), address.size), 0);
        assert_true(send_message(socket.get(), ring_offer{.version = version, .port = port}, std::array{fd}));
        return ends_with_answer();
    }
    // Returns true if the peer has sent its response, false if it has closed the connection.
    bool ends_with_answer()
    {
        ring_offer answer;
        reception r = reception::nothing;
        for (int i = 0; i < 5000 && r == reception::nothing; ++i) {
            pollfd end{.fd = socket.get(), .events = POLLIN, .revents = 0};
            poll(&end, 1, 10);
            r = receive(socket.get(), answer, fds);
        }
        assert_true(r != reception::nothing);
        return r == reception::message;
    }
    void put(std::uint32_t key, const datagram_route &to = route, std::size_t length = 100, std::uint32_t psn = 0)
    {
        static const auto bytes = pattern(1);
        const iovec piece{const_cast<std::byte *>(bytes.data()), length};
        const datagram d{.dest_qpn = receiver.qp->qp_num, .source_qpn = 3, .psn = psn, .qkey = key};
        const auto outcome = writer.put(d, to, {&piece, 1}, length);
        assert_true(outcome == ring_writer::outcome::sent || outcome == ring_writer::outcome::sent_to_sleeper);
        const std::uint64_t one = 1;
        assert_int_equal(write(fds[0].get(), &one, sizeof(one)), sizeof(one));
    }
};

void assert_arrives(std::uint64_t id)
{
    const ibv_wc wc = expect_completion(receiver.cq, id, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 140);
    assert_int_equal(wc.src_qp, peer_port << 8 | 3);
}

TEST(test_only_with_key_and_receive)
{
    ring_peer s;
    assert_true(s.offer(s.file.get()));
    memset(receiver.memory, 0xee, receiver.size);
    s.put(qkey); // no receive is posted
    expect_nothing();
    post_receive(1);
    s.put(qkey + 1);
    datagram_route elsewhere = route;
    elsewhere.source[12] = std::byte{10};
    s.put(qkey, elsewhere);
    expect_nothing();
    assert_true(std::all_of(receiver.memory, receiver.memory + receiver.size, [](auto b) { return b == 0xee; }));
    // The ring orders this read before the next write. ThreadSanitizer does not see that, because each side has mapped
    // the ring at another address, but it sees the lock of the queue pair, which both threads take.
    assert_int_equal(state_of(receiver.qp), IBV_QPS_RTS);
    s.put(qkey);
    assert_arrives(1);
}

TEST(test_peers_that_violate_the_protocol_are_disconnected)
{
    ring_peer s;
    ring_peer valid;
    assert_true(s.offer(s.file.get()));
    assert_true(valid.offer(valid.file.get()));
    post_receive(1);
    reinterpret_cast<ring_record *>(s.raw.get() + page)->length = 5000;
    reinterpret_cast<ring_record *>(s.raw.get() + page)->sequence = 1;
    expect_nothing();
    const std::uint64_t one = 1;
    assert_int_equal(write(s.fds[0].get(), &one, sizeof(one)), sizeof(one));
    assert_false(s.ends_with_answer());
    valid.put(qkey);
    assert_arrives(1);
}

TEST(test_wrong_offers)
{
    ring_peer s[5];
    assert_false(s[0].offer(s[0].file.get(), peer_port, ring_offer{}.version - 1));
    assert_false(s[1].offer(s[1].file.get(), 1 << 16));
    const unique_fd open_size(memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_int_equal(ftruncate(open_size.get(), ring_size), 0);
    assert_false(s[2].offer(open_size.get()));
    const unique_fd short_file(memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_int_equal(ftruncate(short_file.get(), page), 0);
    assert_int_equal(fcntl(short_file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    assert_false(s[3].offer(short_file.get()));
    const unique_fd event(eventfd(0, EFD_CLOEXEC));
    assert_false(s[4].offer(event.get()));
}

class counting_owner : public datagram_peer_owner
{
public:
    bool add(const std::shared_ptr<datagram_peer> &) override { return ++added > 0; }
    void remove(datagram_peer &) override { ++removed; }
    int wake_descriptor() const noexcept override { return wake.get(); }

    const unique_fd wake{eventfd(0, EFD_CLOEXEC)};
    int added = 0;
    int removed = 0;
};

// A polling program and the progress thread both get an event for the offer.
TEST(test_two_threads_get_an_event_for_an_offer)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    unique_fd other(ends[0]);
    const auto owner = std::make_shared<counting_owner>();
    static pending_peers callers; // its timer outlasts this test
    const auto peer = std::make_shared<datagram_peer>(unique_fd(ends[1]), callers, own_port, owner);
    callers.add(peer);
    const unique_fd file = create_ring_file();
    assert_true(send_message(other.get(), ring_offer{.port = peer_port}, std::array{file.get()}));
    peer->ready(POLLIN);
    peer->ready(POLLIN);
    assert_int_equal(owner->added, 1);
    assert_int_equal(owner->removed, 0);
    other = unique_fd();
    peer->ready(POLLIN);
    assert_int_equal(owner->removed, 1);
}

// Records arriving datagrams in order, and blocks the thread that has read one.
class holding_tap final : public tap
{
public:
    void sent(packet_path &, const packet &, std::span<const iovec>) override {}
    void received(packet_path &, const packet &) override {}
    void executed(
            packet_path &, const packet &, std::span<const iovec>, const packet &, std::span<const iovec>) override
    {
    }
    void sent(const datagram &, const datagram_route &, std::span<const iovec>) override {}
    void received(const datagram &d, const network_header &) override
    {
        const unsigned index = count_.load();
        if (index < psns.size())
            psns[index] = d.psn;
        count_.store(index + 1);
        while (!lets_go.load())
            usleep(100);
    }
    void wait_for(unsigned count) const { AWAIT(count_.load() == count); }

    std::array<std::uint32_t, 3> psns{};
    std::atomic<bool> lets_go{false};

private:
    std::atomic<unsigned> count_{0};
};

// A process uses the socket until it knows that its ring was accepted. At that time the socket may contain unread
// datagrams.
TEST(test_data_of_the_socket_is_read_first)
{
    const unique_fd udp(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in to = own;
    to.sin_port = htons(static_cast<std::uint16_t>(receiver.qp->qp_num >> 8));
    socklen_t size = sizeof(own);
    assert_int_equal(bind(udp.get(), reinterpret_cast<sockaddr *>(&own), size), 0);
    assert_int_equal(getsockname(udp.get(), reinterpret_cast<sockaddr *>(&own), &size), 0);
    const std::uint32_t port = ntohs(own.sin_port);
    const auto send_through_socket = [&](std::uint32_t psn) {
        const auto headers =
                encode({.dest_qpn = receiver.qp->qp_num, .source_qpn = port << 8 | 3, .psn = psn, .qkey = qkey});
        assert_int_equal(
                sendto(udp.get(), headers.bytes.data(), headers.size, 0, reinterpret_cast<sockaddr *>(&to), size),
                headers.size);
    };
    ring_peer s;
    assert_true(s.offer(s.file.get(), port));
    static holding_tap watched; // static, because a thread may still be inside at the end
    tap::install(&watched);
    send_through_socket(0);
    watched.wait_for(1);
    send_through_socket(1);
    s.put(qkey, route, 100, 2);
    watched.lets_go = true;
    watched.wait_for(3);
    tap::install(nullptr);
    for (std::uint32_t i = 0; i < watched.psns.size(); ++i)
        assert_int_equal(watched.psns[i], i);
}

// One writer is stopped, and then killed, in the middle of a datagram. Its earlier datagrams arrive, the unfinished one
// does not, and other writers are not delayed.
TEST(test_killed_in_the_middle)
{
    ring_peer dying;
    ring_peer valid;
    assert_true(dying.offer(dying.file.get()));
    assert_true(valid.offer(valid.file.get()));
    post_receive(1);
    const pid_t pid = fork();
    if (pid == 0) {
        dying.put(qkey);
        auto *next = reinterpret_cast<ring_record *>(dying.raw.get() + page + whole_lines(56 + 100));
        next->qkey = qkey;
        next->length = 100;
        next->dest = static_cast<std::uint8_t>(receiver.qp->qp_num);
        raise(SIGSTOP);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_arrives(1);
    post_receive(2);
    valid.put(qkey);
    assert_arrives(2);
    post_receive(3);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    dying.socket = unique_fd();
    expect_nothing();
    valid.put(qkey);
    assert_arrives(3);
}

} // namespace
