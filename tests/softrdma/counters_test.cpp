// SPDX-License-Identifier: BSD-3-Clause
// White-box: counters in shared memory, each shortly before 2^32 and after it. One queue pair receives; its peer is
// this process, which acts on its memory.
#include "transport/shm/arena.hpp"
#include "transport/shm/identity.hpp"
#include "transport/shm/shm_ep.hpp"
#include "verbs_fixture.hpp"

#include <algorithm>
#include <array>
#include <sys/mman.h>
#include <unistd.h>

using namespace softrdma;

namespace
{

constexpr std::uint32_t receives = 8;
constexpr std::uint32_t size = 8192;
constexpr std::uint32_t wrap = UINT32_MAX; // the last position before the wrap to 0

struct receiver {
    deferred_calls later;
    device_context opened{later, arena::instance(), rc_transport::make};
    protection_domain pd;
    std::unique_ptr<completion_queue> cq;
    std::unique_ptr<shared_receive_queue> srq;
    std::shared_ptr<queue_pair> qp;
    std::vector<std::byte> bytes = std::vector<std::byte>(std::size_t{receives} * size);
    ibv_mr *mr = nullptr;
    std::shared_ptr<shm_ep> peer;
    std::atomic<std::uint32_t> peer_section{0};

    receiver(const ring_start &start, bool shares)
    {
        assert_true(arena::instance().shared());
        pd.context = &opened.verbs.context;
        cq = std::make_unique<completion_queue>(pd.context, 64, nullptr, nullptr);
        ibv_srq_init_attr shared{.srq_context = nullptr, .attr = {.max_wr = receives, .max_sge = 1, .srq_limit = 0}};
        if (shares)
            srq = std::make_unique<shared_receive_queue>(&pd, shared);
        mr = region_table::instance().add(&pd, bytes.data(), bytes.size(),
                reinterpret_cast<std::uintptr_t>(bytes.data()), IBV_ACCESS_LOCAL_WRITE);
        assert_non_null(mr);
        ibv_qp_init_attr attr = rc_attributes(*cq, receives);
        attr.srq = srq.get();
        qp = queue_pair::create(&pd, attr, 0, start);
        assert_non_null(qp.get());
        connect();
    }
    ~receiver()
    {
        peer.reset();
        assert_int_equal(qp->destroy(), 0);
        qp.reset();
        while (later.run())
            ;
        region_table::instance().remove(mr);
    }

    void connect()
    {
        make_ready_to_send(*qp, connected_pair::all_access, 7);
        const connection_ends ends{.own_address = {1}, .peer_address = {2}, .own_port = 3, .peer_port = 4};
        shm_address h;
        h.present = true;
        h.owner = own_identity();
        h.token = arena::instance().token();
        assert_true(qp->describe(ends, h));
        std::string reason;
        peer = shm_ep::open(h, ends.reversed(), reason);
        assert_string_equal(reason.c_str(), "");
        qp->expect(peer);
    }
    std::byte *place(std::uint64_t id) { return bytes.data() + id % receives * size; }
    void post(std::uint64_t id)
    {
        const ibv_sge list{reinterpret_cast<std::uintptr_t>(place(id)), size, mr->lkey};
        assert_int_equal(srq != nullptr ? post_one(*srq, id, list) : post_one(*qp, id, list), 0);
    }
    bool delivers(std::uint64_t id, std::uint32_t length)
    {
        std::vector<std::byte> message(length, static_cast<std::byte>(id + 1));
        const iovec piece{message.data(), message.size()};
        const read_section section(peer_section);
        return peer->deliver({.length = length, .imm_data = 0, .flags = 0}, {&piece, 1});
    }
    void completes(std::uint64_t id, std::uint32_t length)
    {
        ibv_wc wc{};
        assert_int_equal(cq->poll(1, &wc), 1);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, id);
        assert_int_equal(wc.byte_len, length);
        const std::byte *at = place(id);
        assert_true(std::all_of(at, at + length, [id](std::byte b) { return b == static_cast<std::byte>(id + 1); }));
    }
    void completes_nothing()
    {
        ibv_wc wc{};
        assert_int_equal(cq->poll(1, &wc), 0);
    }
};

// The receive queue is empty before each message, so the peer finds no receive.
DEFINE_TEST(each_message_has_its_receive, nullptr, nullptr)
{
    for (const bool shares : {false, true}) {
        receiver r({.position = wrap - 3}, shares);
        for (std::uint64_t id = 0; id < 8; ++id) {
            assert_false(r.peer->has_receive());
            r.post(id);
            assert_true(r.peer->has_receive());
            assert_true(r.delivers(id, 8));
            r.completes(id, 8);
        }
        for (std::uint64_t id = 0; id < receives; ++id)
            r.post(id);
        for (std::uint64_t id = 0; id < receives; ++id)
            assert_true(r.delivers(id, 8));
        for (std::uint64_t id = 0; id < receives; ++id)
            r.completes(id, 8);
        r.completes_nothing();
    }
}

// The peer delivers no message to it, however often the receive was lent.
DEFINE_TEST(a_reclaimed_receive_gets_no_message, nullptr, nullptr)
{
    for (std::uint32_t before = 0; before < 3; ++before) {
        receiver r({.position = wrap - before}, true);
        for (std::uint64_t id = 0; id < 5; ++id) {
            r.post(id);
            assert_true(r.peer->has_receive());
            const auto taken = r.srq->take();
            assert_true(taken.has_value() && taken->wr_id == id);
            assert_false(r.peer->has_receive());
            assert_false(r.delivers(id, 8));
            r.completes_nothing();
            r.post(id);
            assert_true(r.delivers(id, 8));
            r.completes(id, 8);
        }
    }
}

// The slot of a receive that was used by a message over the network is unchanged.
DEFINE_TEST(messages_over_the_network_leave_no_message_behind, nullptr, nullptr)
{
    receiver r({.position = wrap - 3}, false);
    for (std::uint64_t id = 0; id < 8; ++id) {
        r.post(id);
        const auto taken = r.qp->receives().take();
        assert_true(taken.has_value() && taken->wr_id == id);
        r.completes_nothing();
        r.peer->peer_consumed_receive();
    }
    r.post(8);
    assert_true(r.delivers(8, 8));
    r.completes(8, 8);
}

// Tokens of lent receives do not repeat.
DEFINE_TEST(a_token_is_never_reused, nullptr, nullptr)
{
    const auto first_token = [](std::uint32_t tokens) {
        receiver r({.tokens = tokens}, true);
        r.post(0);
        const receive_slot &slot = *reinterpret_cast<receive_slot *>(r.qp->receives().memory().at + ring_offset);
        return slot.done.load();
    };
    const auto used = first_token(0);
    for (unsigned bit = 6; bit < 32; ++bit)
        assert_true(first_token(1u << bit) != used);
}

// Messages that fill the bounce buffer, one for which it lacks space, and messages of all lengths.
DEFINE_TEST(the_bounce_buffer_is_used_in_turn, nullptr, nullptr)
{
    constexpr std::uint32_t length = max_bounced / 2;
    receiver r({.bounced = UINT32_MAX / cache_line * cache_line - 2 * length}, true);
    std::uint64_t next = 0;
    for (unsigned round = 0; round < 2; ++round) {
        const std::uint64_t first = next;
        for (unsigned i = 0; i < receives; ++i)
            r.post(first + i);
        while (next < first + receives && r.delivers(next, length))
            ++next;
        assert_in_range(next - first, bounce_buffer_size / length - 1, receives);
        for (std::uint64_t id = first; id < next; ++id)
            r.completes(id, length);
        for (; next < first + receives; ++next) {
            assert_true(r.delivers(next, length));
            r.completes(next, length);
        }
    }
    for (std::uint32_t bytes = inline_size + 1; bytes < length; bytes += 97, ++next) {
        r.post(next);
        assert_true(r.delivers(next, bytes));
        r.completes(next, bytes);
    }
}

// A file registered in the same slot after 2^32 registrations is another region, even if the peer has the old key.
DEFINE_TEST(a_region_is_not_confused_with_an_earlier_one, nullptr, nullptr)
{
    constexpr std::uint32_t key = 0x1234 << key_variant_bits;
    receiver r({}, false);
    auto &shared = arena::instance();
    std::array<std::byte, 8> word{};
    const iovec piece{word.data(), word.size()};
    for (const std::byte value : {std::byte{1}, std::byte{2}}) {
        const unique_fd file(memfd_create("region", MFD_CLOEXEC));
        assert_int_equal(ftruncate(file.get(), page), 0);
        void *at = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
        assert_ptr_not_equal(at, MAP_FAILED);
        const auto begin = reinterpret_cast<std::uintptr_t>(at);
        shared.publish({.key = key,
                .domain = softrdma::domain_of(&r.pd),
                .access = connected_pair::all_access,
                .base = begin,
                .length = page,
                .address = begin,
                .kind = region_kind::shared_file});
        word.fill(value);
        {
            const read_section section(r.peer_section);
            assert_true(r.peer->write(key, begin, {&piece, 1}, word.size()) == copy_result::done);
        }
        assert_memory_equal(at, word.data(), word.size());
        shared.withdraw(key);
        shared.slot(slot_index(key)).generation.fetch_add(UINT32_MAX);
    } // both files stay mapped, at different addresses
}

// An operation that is in progress when its section word wraps is waited for, but not longer than necessary.
DEFINE_TEST(a_section_word_wraps, nullptr, nullptr)
{
    const auto word = std::make_shared<std::atomic<std::uint32_t>>(UINT32_MAX - 1);
    std::optional<grace_period> seen;
    {
        const read_section section(*word);
        assert_int_equal(word->load(), UINT32_MAX);
        seen.emplace(reader::own(word));
        assert_false(seen->ended());
    }
    assert_int_equal(word->load(), 0);
    assert_true(seen->ended());
    const read_section next(*word);
    assert_true(seen->ended());
    assert_false(grace_period(reader::own(word)).ended());
}

} // namespace
