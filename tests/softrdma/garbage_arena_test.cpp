// SPDX-License-Identifier: BSD-3-Clause
// White-box: a process of the same user with arbitrary data in its arena, or that writes arbitrary data into the local
// one. The peer loses at most the connection: it never accesses memory outside the arenas, their mappings and the
// memory of that process.
#include "impostor.hpp"
#include "verbs/qp.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>

extern "C" {
#include "fixture.h"
}

using namespace softrdma;

namespace
{

constexpr connection_ends ends{.own_address = {1}, .peer_address = {2}, .own_port = 3, .peer_port = 4};

void use(shm_ep &c, std::mt19937 &random)
{
    std::array<std::byte, 4096> data{};
    for (unsigned n = 0; n < 8; ++n) {
        const std::size_t bytes = random() % data.size();
        const auto length = static_cast<std::uint32_t>(bytes);
        const iovec piece{data.data(), bytes};
        c.deliver({.length = length, .imm_data = 0, .flags = slot_solicited}, {&piece, 1});
        const auto key = static_cast<std::uint32_t>(random() % 4096 + 1);
        const std::uint64_t at = random();
        c.write(key, at, {&piece, 1}, length);
        c.read(key, at, {&piece, 1}, length);
    }
}

TEST(a_forged_introduction_is_refused)
{
    impostor i = make_impostor();
    const connection_ends another{.own_address = {1}, .peer_address = {2}, .own_port = 3, .peer_port = 5};
    std::string reason;
    write_blocks(i, ends);
    assert_non_null(open_channel(i, i.h, ends, reason).get()); // it is valid without a change
    assert_null(open_channel(i, i.h, another, reason).get());
    const auto refused = [&](auto change) {
        shm_address forged = i.h;
        change(forged);
        return open_channel(i, forged, ends, reason) == nullptr && !reason.empty();
    };
    assert_true(refused([](shm_address &h) { h.token[1] ^= 1; }));
    assert_true(refused([](shm_address &h) { h.owner.start_time += 1; }));
    assert_true(refused([](shm_address &h) { h.owner.pid = static_cast<std::uint32_t>(getppid()); }));
    assert_true(refused([](shm_address &h) { h.owner.uid += 1; }));
    assert_true(refused([](shm_address &h) { h.owner.boot[0] ^= 1; }));
    assert_true(refused([](shm_address &h) { h.connection += 1; }));
    assert_true(refused([](shm_address &h) { h.qp_offset = impostor::arena_size; }));
    assert_true(refused([](shm_address &h) { h.qp_offset = ~0ull << 12; }));
    assert_true(refused([](shm_address &h) { h.qp_size = impostor::arena_size; }));
    assert_true(refused([](shm_address &h) { h.qp_size = 64; }));
    assert_true(refused([](shm_address &h) { h.qp_offset += 8; }));
    reinterpret_cast<cq_block *>(i.memory + impostor::cq_offset)->event_fd = i.arena;
    assert_true(refused([](shm_address &) {}));
    end_impostor(i);
}

TEST(invalid_data_ends_only_its_connection)
{
    const unsigned seed = number_from("TEST_SEED", static_cast<unsigned>(getpid()));
    print_message("seed %u\n", seed);
    std::mt19937 random(seed);
    impostor i = make_impostor();
    unsigned opened = 0;
    for (unsigned round = 0; round < 2000; ++round) {
        write_blocks(i, ends);
        const auto corrupt = [&](std::uint64_t offset, std::size_t size, unsigned count) {
            for (unsigned n = 0; n < count; ++n)
                i.memory[offset + random() % size] = static_cast<std::byte>(random());
        };
        corrupt(impostor::words, 96, random() % 2);
        corrupt(impostor::qp_offset + ring_offset, 8192, 64);
        corrupt(impostor::cq_offset, sizeof(cq_block), random() % 16);
        corrupt(page, 256 * 1024, 512);
        for (unsigned slot = 0; slot < 16; ++slot) // receives that look posted, with arbitrary elements
            reinterpret_cast<receive_slot *>(i.memory + impostor::qp_offset + ring_offset + slot * 512)->posted =
                    slot + 1;
        std::string reason;
        const auto c = open_channel(i, i.h, ends, reason);
        if (c == nullptr)
            continue;
        ++opened;
        corrupt(impostor::qp_offset, impostor::qp_size, 256); // a peer may change values after they were checked
        use(*c, random);
    }
    assert_true(opened > 100);
    end_impostor(i);
}

// Forges the receives of a queue pair, which a peer can write.
class forger
{
public:
    explicit forger(pair &p) : p_(p), block_(block_of(softrdma::pd_of(p.server.pd).number))
    {
        send_honestly(); // after this, the server polls this memory
    }

    // Returns the completion of the message, which is received into the first bytes of the server's memory.
    ibv_wc deliver(std::uint8_t flags, std::uint32_t length, std::uint32_t bounced, std::size_t receive_size)
    {
        assert_int_equal(::post_receive(&p_.server, position_, 0, receive_size), 0);
        receive_slot &at = slot(position_);
        at.flags = flags;
        at.length = length;
        at.bounced = bounced;
        at.done = ++position_;
        return next_completion(p_.server.cq);
    }
    receive_slot &slot(std::uint32_t position) const noexcept
    {
        return *reinterpret_cast<receive_slot *>(
                block_->at + ring_offset + position % shared().ring_capacity * shared().ring_stride);
    }
    std::byte *bounce_buffer() const noexcept
    {
        return block_->at + bounce_buffer_offset(shared().ring_capacity, shared().ring_stride);
    }

private:
    qp_block &shared() const noexcept
    {
        return *reinterpret_cast<qp_block *>(block_->at + words_offset(block_->offset));
    }
    // Returns the block of the only queue pair of that protection domain.
    static std::shared_ptr<block> block_of(std::uint64_t domain)
    {
        constexpr std::uint64_t far = 64 << 20;
        for (std::uint64_t offset = tables_size; offset < far; offset += page) {
            const auto found = arena::instance().find(offset);
            if (found == nullptr)
                continue;
            const auto *qp = reinterpret_cast<const qp_block *>(found->at + words_offset(offset));
            if (qp->magic == qp_magic && qp->domain == domain)
                return found;
        }
        return nullptr;
    }
    void send_honestly()
    {
        assert_int_equal(::post_receive(&p_.server, position_++, 0, 8), 0);
        assert_int_equal(::post(&p_.client, IBV_WR_SEND, 1, 0, 8, nullptr, 0, 0), 0);
        assert_int_equal(next_completion(p_.server.cq).status, IBV_WC_SUCCESS);
        expect_completion(p_.client.cq, 1, IBV_WC_SUCCESS);
    }

    pair &p_;
    std::shared_ptr<block> block_;
    std::uint32_t position_ = 0;
};

struct forgery {
    unsigned flags;
    std::uint32_t length;
    std::uint32_t bounced;
    std::size_t receive_size;
    ibv_wc_status status;
};

void expect_refused(const forgery &message)
{
    OPEN_PAIR(p, nullptr);
    forger f(p);
    memset(p.server.memory, 0, p.server.size);
    const ibv_wc wc =
            f.deliver(static_cast<std::uint8_t>(message.flags), message.length, message.bounced, message.receive_size);
    assert_int_equal(wc.status, message.status);
    assert_int_equal(wc.byte_len, 0);
    for (std::size_t i = 0; i < p.server.size; ++i)
        assert_int_equal(p.server.memory[i], 0);
    AWAIT(state_of(p.server.qp) == IBV_QPS_ERR); // it changes later
}

TEST(a_forged_message_is_refused_and_ends_the_connection)
{
    const std::size_t all = 4096;
    const forgery messages[] = {
            {0, ~0u, 0, all, IBV_WC_LOC_LEN_ERR}, // a peer that has placed it itself
            {slot_bounced, 101, bounce_buffer_size - 100, all, IBV_WC_LOC_PROT_ERR},
            {slot_bounced, ~0u, 0, all, IBV_WC_LOC_LEN_ERR},
            {slot_bounced, ~0u, ~0u, all, IBV_WC_LOC_LEN_ERR},
            {slot_bounced, 100, ~0u - 99, 99, IBV_WC_LOC_LEN_ERR},
            {slot_inlined, inline_size + 1, 0, all, IBV_WC_LOC_PROT_ERR},
            {slot_inlined, 65, 0, 64, IBV_WC_LOC_LEN_ERR},
            {0, 65, 0, 64, IBV_WC_LOC_LEN_ERR},
            {slot_immediate, all + 1, 0, all, IBV_WC_LOC_LEN_ERR},
            {slot_write | slot_immediate, ~0u, 0, all, IBV_WC_LOC_LEN_ERR},
            {slot_write | slot_immediate, (1u << 30) + 1, 0, all, IBV_WC_LOC_LEN_ERR},
            {slot_write | slot_inlined, 64, 0, all, IBV_WC_LOC_PROT_ERR},
            {slot_write | slot_bounced, 64, 0, all, IBV_WC_LOC_PROT_ERR},
    };
    for (const forgery &message : messages)
        expect_refused(message);
}

TEST(a_message_is_taken_from_its_place_only)
{
    OPEN_PAIR(p, nullptr);
    forger f(p);
    memset(p.server.memory, 0, p.server.size);
    memset(f.bounce_buffer() + bounce_buffer_size - 100, 7, 100);
    assert_int_equal(f.deliver(slot_bounced, 100, ~0u - 99, p.server.size).status, IBV_WC_SUCCESS);
    assert_memory_equal(p.server.memory, f.bounce_buffer() + bounce_buffer_size - 100, 100);
    assert_int_equal(p.server.memory[100], 0);
    assert_int_equal(f.deliver(slot_write | slot_immediate, 5000, 0, 8).byte_len,
            5000); // length of the WRITE, not of the receive
}

// The next peer of a queue pair is shown what the program posts, not what the last one has left there.
TEST(receives_after_a_reset_are_published_again)
{
    constexpr unsigned places = 16;
    OPEN_PAIR(p, nullptr);
    const forger f(p);
    for (unsigned i = 0; i < places; ++i)
        assert_int_equal(::post_receive(&p.server, i, 0, p.server.size), 0);
    to_reset(p.server.qp);
    for (unsigned i = 0; i < places; ++i)
        f.slot(i).capacity = f.slot(i).sges()->length = 1;
    to_init(p.server.qp);
    for (unsigned i = 0; i < places; ++i)
        assert_int_equal(::post_receive(&p.server, i, 0, p.server.size), 0);
    for (unsigned i = 0; i < places; ++i) {
        assert_int_equal(f.slot(i).capacity, p.server.size);
        assert_int_equal(f.slot(i).sges()->length, p.server.size);
    }
}

TEST(an_arena_of_another_version_is_rejected_with_both_versions)
{
    impostor i = make_impostor();
    write_blocks(i, {});
    reinterpret_cast<arena_header *>(i.memory)->version = arena_version + 1;
    std::string reason;
    assert_null(open_channel(i, i.h, {}, reason).get());
    assert_true(reason.find("version " + std::to_string(arena_version) + ' ') != std::string::npos);
    assert_true(reason.find("version " + std::to_string(arena_version + 1) + ',') != std::string::npos);
    end_impostor(i);
}

} // namespace

int main()
{
    setenv("SOFTRDMA_TRANSPORT", "shm", 1);
    return run_registered_tests();
}
