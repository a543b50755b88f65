// SPDX-License-Identifier: BSD-3-Clause
// White-box: a process of the same user that hands over anything, or nothing. It costs the connection its short way.
#include "impostor.hpp"
#include "transport/shm/fd_server.hpp"
#include "transport/shm/fd_message.hpp"
#include "transport/shm/fd_client.hpp"

#include <cstdlib>
#include <future>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "cmocka_headers.hpp"

using namespace softrdma;

namespace
{

constexpr std::uint64_t door_number = 0x1234;
constexpr connection_ends ends{.own_address = {1}, .peer_address = {2}, .own_port = 3, .peer_port = 4};

// Responds to one fd_peer, until it disconnects.
class host
{
public:
    using answer = std::function<void(int fd_peer, const fd_request &)>;

    explicit host(answer a) : door_(open_local_socket()), answer_(std::move(a))
    {
        const fd_server_address address(door_number ^ static_cast<std::uint64_t>(getpid()) << 16);
        assert_int_equal(bind(door_.get(), address.get(), address.size), 0);
        assert_int_equal(listen(door_.get(), 1), 0);
        thread_ = std::thread([this] { run(); });
    }
    ~host() { thread_.join(); }

private:
    void run()
    {
        pollfd ready{.fd = door_.get(), .events = POLLIN, .revents = 0};
        poll(&ready, 1, -1);
        const unique_fd fd_peer(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        for (;;) {
            fd_request w;
            ready.fd = fd_peer.get();
            poll(&ready, 1, -1);
            received_fds none;
            if (receive(fd_peer.get(), w, none) != reception::message)
                return;
            answer_(fd_peer.get(), w);
        }
    }

    unique_fd door_;
    answer answer_;
    std::thread thread_;
};

void give(int fd_peer, fd_request_kind kind, std::initializer_list<int> passed)
{
    send_message(fd_peer, fd_reply{.kind = kind}, std::span(passed.begin(), passed.size()));
}

class forged
{
public:
    forged() : i(make_impostor())
    {
        i.h.fd_server = door_number ^ static_cast<std::uint64_t>(getpid()) << 16;
        write_blocks(i, ends);
        assert_int_equal(pipe(pipe_ends), 0);
    }
    ~forged()
    {
        end_impostor(i);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
    }

    handover visit_it()
    {
        std::promise<handover> promise;
        const no_shm_reason reason = request_fds(i.h, [&](handover passed) { promise.set_value(std::move(passed)); });
        assert_true(reason == no_shm_reason::none);
        return promise.get_future().get();
    }
    std::shared_ptr<shm_ep> open(handover passed)
    {
        std::string reason;
        auto c = shm_ep::open(i.h, ends, std::move(passed), reason);
        assert_true(c != nullptr || !reason.empty());
        return c;
    }

    impostor i;
    int pipe_ends[2];
};

TEST(a_valid_host_is_accepted)
{
    forged f;
    const unique_fd completion_fd(eventfd(0, EFD_CLOEXEC));
    reinterpret_cast<cq_block *>(f.i.memory + impostor::cq_offset)->event_fd = 3;
    const host h([&](int to, const fd_request &w) {
        assert_true(w.token == f.i.h.token);
        give(to, w.kind, {f.i.arena, completion_fd.get()});
    });
    assert_non_null(f.open(f.visit_it()).get());
}

TEST(the_arena_of_another_is_refused)
{
    forged f;
    const host h([&](int to, const fd_request &w) { give(to, w.kind, {f.i.arena}); });
    handover passed = f.visit_it();
    f.i.h.token[0] ^= 1;
    assert_null(f.open(std::move(passed)).get());
}

TEST(a_bell_that_is_none_is_refused)
{
    forged f;
    reinterpret_cast<cq_block *>(f.i.memory + impostor::cq_offset)->event_fd = 3;
    const host h([&](int to, const fd_request &w) { give(to, w.kind, {f.i.arena, f.pipe_ends[1]}); });
    handover passed = f.visit_it();
    assert_true(passed.arena.get() >= 0 && passed.completion_fd.get() < 0);
    assert_null(f.open(std::move(passed)).get());
}

// Passes a descriptor of no arena, no descriptor, a malformed reply, and nothing.
TEST(an_arena_that_is_none_is_refused)
{
    constexpr void (*answers[])(const forged &, int to, const fd_request &) = {
            [](const forged &f, int to, const fd_request &w) { give(to, w.kind, {f.pipe_ends[0]}); },
            [](const forged &, int to, const fd_request &w) { give(to, w.kind, {}); },
            [](const forged &, int to, const fd_request &) { assert_int_equal(send(to, "no", 2, MSG_NOSIGNAL), 2); },
            [](const forged &, int, const fd_request &) {}};
    for (const auto answer : answers) {
        forged f;
        const host h([&](int to, const fd_request &w) { answer(f, to, w); });
        handover passed = f.visit_it();
        assert_true(passed.arena.get() < 0 || answer == answers[0]);
        assert_null(f.open(std::move(passed)).get());
    }
}

TEST(an_unrequested_file_is_dropped)
{
    forged f;
    const host h([&](int to, const fd_request &w) {
        give(to, fd_request_kind::file, {f.pipe_ends[0]});
        give(to, w.kind, {f.i.arena});
        give(to, fd_request_kind::file, {f.pipe_ends[0]});
        give(to, w.kind, {f.i.arena});
    });
    assert_non_null(f.open(f.visit_it()).get());
}

// A region of the impostor that claims to be a file. No byte is written, whatever descriptor the impostor passes for
// it.
void pass_as_shared_file(int wrong)
{
    constexpr std::uint32_t key = 7 << key_variant_bits;
    forged f;
    region_slot &slot = *reinterpret_cast<region_slot *>(f.i.memory + page + slot_index(key) * sizeof(region_slot));
    slot.key = key;
    slot.domain = 1;
    slot.access = ~0u;
    slot.length = 4096;
    slot.kind = region_kind::shared_file;
    std::atomic<bool> passed{false};
    const host h([&](int to, const fd_request &w) {
        if (w.kind == fd_request_kind::arena)
            return give(to, w.kind, {f.i.arena});
        send_message(to, fd_reply{.kind = w.kind, .key = w.key, .generation = w.generation}, {&wrong, 1});
        passed = true;
    });
    const auto c = f.open(f.visit_it());
    assert_non_null(c.get());
    const std::uint64_t data = 0;
    const iovec piece{const_cast<std::uint64_t *>(&data), sizeof(data)};
    assert_true(c->write(key, 0, {&piece, 1}, sizeof(data)) == copy_result::unsupported); // it is asked for
    while (!passed)
        usleep(1000);
    for (int i = 0; i < 20; ++i, usleep(1000))
        assert_true(c->write(key, 0, {&piece, 1}, sizeof(data)) != copy_result::done);
}

TEST(a_descriptor_of_no_file_is_rejected)
{
    const unique_fd completion_fd(eventfd(0, EFD_CLOEXEC));
    pass_as_shared_file(completion_fd.get());
}

TEST(a_file_that_is_too_short_is_not_written)
{
#ifdef __SANITIZE_THREAD__
    skip_because("ThreadSanitizer does not let a handler leave by siglongjmp");
#else
    const unique_fd empty(memfd_create("empty", MFD_CLOEXEC));
    pass_as_shared_file(empty.get());
#endif
}

} // namespace

int main()
{
    setenv("SOFTRDMA_TRANSPORT", "shm-fd", 1); // memory other than private memory must be passed as a descriptor
    if (start_event_loop() == nullptr)
        return 1;
    return run_registered_tests();
}
