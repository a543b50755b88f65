// SPDX-License-Identifier: BSD-3-Clause
// White-box: a process of the same user whose arena holds anything. Whatever a peer finds there costs it no more than
// the connection: it reads and writes nothing outside the arena, its mappings and the memory of that process.
#include "local/channel.hpp"

#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <random>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

using namespace softrdma::local;

namespace
{

constexpr std::uint64_t qp_offset = 1 << 23;
constexpr std::uint64_t cq_offset = (1 << 23) + (1 << 20);
constexpr std::uint64_t arena_size = 1 << 24;
constexpr std::size_t qp_size = 1 << 16;

// A peer that has nothing but an arena, which this process writes as well.
struct impostor {
    hello h;
    std::byte *memory = nullptr;
    token_bytes *token = nullptr; // at the same address in both processes
    pid_t pid = 0;
};

impostor make_impostor()
{
    impostor i;
    const int fd = memfd_create("garbage", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, arena_size), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    void *at = mmap(nullptr, arena_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    i.memory = static_cast<std::byte *>(at);
    i.token = new token_bytes{1, 2};
    i.pid = fork();
    if (i.pid == 0) {
        for (;;)
            pause();
    }
    i.h.present = true;
    i.h.who = identity::own();
    i.h.who.pid = static_cast<std::uint32_t>(i.pid);
    i.h.who.start_time = 77;
    i.h.arena_fd = fd;
    i.h.token = *i.token;
    i.h.qp_offset = qp_offset;
    i.h.qp_size = qp_size;
    i.h.qp_serial = 5;
    auto *header = reinterpret_cast<arena_header *>(i.memory);
    *header = {.magic = arena_magic,
            .version = arena_version,
            .pid = i.h.who.pid,
            .token = *i.token,
            .start_time = 77,
            .token_address = reinterpret_cast<std::uintptr_t>(i.token)};
    return i;
}

void end_impostor(impostor &i)
{
    kill(i.pid, SIGKILL);
    waitpid(i.pid, nullptr, 0);
    munmap(i.memory, arena_size);
    close(i.h.arena_fd);
    delete i.token;
}

void write_blocks(impostor &i, const connection_ends &ends)
{
    auto *qp = new (i.memory + qp_offset) qp_block{};
    qp->magic = qp_magic;
    qp->serial = i.h.qp_serial;
    qp->ring_capacity = 16;
    qp->ring_stride = 512;
    qp->max_sge = 4;
    qp->domain = 1;
    qp->cq_offset = cq_offset;
    qp->ends = ends.reversed();
    qp->state = qp_state::open;
    qp->access = ~0u;
    auto *cq = new (i.memory + cq_offset) cq_block{};
    cq->magic = cq_magic;
    cq->event_fd = -1;
}

void use(channel &c, std::mt19937 &random)
{
    std::array<std::byte, 4096> data{};
    remote_region r;
    for (unsigned n = 0; n < 8; ++n) {
        const std::size_t bytes = random() % data.size();
        const iovec piece{data.data(), bytes};
        c.deliver({.length = static_cast<std::uint32_t>(bytes), .imm_data = 0, .flags = slot_solicited}, {&piece, 1});
        if (c.find(random() % 4096 + 1, 0, random(), bytes, r)) {
            c.write(r, {&piece, 1});
            c.read(r, {&piece, 1});
        }
    }
}

void an_honest_arena_is_accepted(void **)
{
    impostor i = make_impostor();
    const connection_ends ends{.own_address = {1}, .peer_address = {2}, .own_port = 3, .peer_port = 4};
    std::string why;
    write_blocks(i, ends);
    assert_non_null(channel::open(i.h, ends, why).get());
    end_impostor(i);
}

void a_forged_introduction_is_refused(void **)
{
    impostor i = make_impostor();
    const connection_ends ends{.own_address = {1}, .peer_address = {2}, .own_port = 3, .peer_port = 4};
    const connection_ends another{.own_address = {1}, .peer_address = {2}, .own_port = 3, .peer_port = 5};
    std::string why;
    write_blocks(i, ends);
    assert_null(channel::open(i.h, another, why).get());
    const auto refused = [&](auto change) {
        hello forged = i.h;
        change(forged);
        return channel::open(forged, ends, why) == nullptr && !why.empty();
    };
    assert_true(refused([](hello &h) { h.token[1] ^= 1; }));
    assert_true(refused([](hello &h) { h.who.start_time += 1; }));
    assert_true(refused([](hello &h) { h.who.pid = static_cast<std::uint32_t>(getppid()); }));
    assert_true(refused([](hello &h) { h.who.uid += 1; }));
    assert_true(refused([](hello &h) { h.who.boot[0] ^= 1; }));
    assert_true(refused([](hello &h) { h.who.pid_namespace += 1; }));
    assert_true(refused([](hello &h) { h.arena_fd = 0; }));
    assert_true(refused([](hello &h) { h.qp_serial += 1; }));
    assert_true(refused([](hello &h) { h.qp_offset = arena_size; }));
    assert_true(refused([](hello &h) { h.qp_offset = ~0ull << 12; }));
    assert_true(refused([](hello &h) { h.qp_size = arena_size; }));
    assert_true(refused([](hello &h) { h.qp_size = 64; }));
    assert_true(refused([](hello &h) { h.qp_offset += 8; }));
    reinterpret_cast<cq_block *>(i.memory + cq_offset)->event_fd = i.h.arena_fd;
    assert_true(refused([](hello &) {}));
    end_impostor(i);
}

void garbage_costs_the_connection_only(void **)
{
    const char *seed_text = getenv("SOFTRDMA_SEED");
    const auto seed = static_cast<unsigned>(seed_text != nullptr ? atoi(seed_text) : getpid());
    print_message("seed %u\n", seed);
    std::mt19937 random(seed);
    impostor i = make_impostor();
    const connection_ends ends{.own_address = {1}, .peer_address = {2}, .own_port = 3, .peer_port = 4};
    unsigned opened = 0;
    for (unsigned round = 0; round < 2000; ++round) {
        write_blocks(i, ends);
        const auto spoil = [&](std::uint64_t offset, std::size_t size, unsigned count) {
            for (unsigned n = 0; n < count; ++n)
                i.memory[offset + random() % size] = static_cast<std::byte>(random());
        };
        spoil(qp_offset, 96, random() % 2);
        spoil(qp_offset + ring_offset, 8192, 64);
        spoil(cq_offset, sizeof(cq_block), random() % 16);
        spoil(page, 256 * 1024, 512);
        for (unsigned slot = 0; slot < 16; ++slot) // receives that look posted, with any elements
            reinterpret_cast<receive_slot *>(i.memory + qp_offset + ring_offset + slot * 512)->posted = slot + 1;
        std::string why;
        const auto c = channel::open(i.h, ends, why);
        if (c == nullptr)
            continue;
        ++opened;
        spoil(qp_offset, qp_size, 256); // what was checked may change afterwards
        use(*c, random);
    }
    assert_true(opened > 100);
    end_impostor(i);
}

} // namespace

int main()
{
    setenv("SOFTRDMA_PATH", "local", 1);
    const CMUnitTest tests[] = {
            cmocka_unit_test(an_honest_arena_is_accepted),
            cmocka_unit_test(a_forged_introduction_is_refused),
            cmocka_unit_test(garbage_costs_the_connection_only),
    };
    return cmocka_run_group_tests_name("garbage_arena", tests, nullptr, nullptr);
}
