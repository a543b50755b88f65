// SPDX-License-Identifier: BSD-3-Clause
// The owner's readers of what its peers may write: the ring of receives of a queue pair, with its bounce buffer, and
// the words of a completion queue. The receives are its own, or lent by a shared queue. A message never takes more than
// its receive, and a receive never completes twice; none that was lent is lost.
#include "verbs_fixture.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>

using namespace softrdma;

namespace
{

constexpr std::uint32_t receive_area =
        2048; // size of the receive area in the receiver's memory; the rest must not change
constexpr std::uint32_t max_receive = 512;
constexpr std::byte untouched{0x5a};

class input
{
public:
    input(const std::uint8_t *data, std::size_t size) noexcept : left_(data, size) {}
    bool done() const noexcept { return left_.empty(); }
    std::uint32_t number(unsigned bytes) noexcept
    {
        std::uint32_t value = 0;
        for (; bytes > 0 && !left_.empty(); --bytes, left_ = left_.subspan(1))
            value = value << 8 | left_.front();
        return value;
    }

private:
    std::span<const std::uint8_t> left_;
};

class receiver
{
public:
    explicit receiver(bool shares) : shares_(shares)
    {
        pair_.b.memory.fill(untouched);
        ring_.borrow();
    }

    void act(input &in)
    {
        switch (in.number(1) % 8) {
        case 0:
            return post(in);
        case 1:
            return deliver(in);
        case 2:
            return overwrite(ring_.memory(), in);
        case 3:
            return overwrite(pair_.b.cq->memory(), in);
        case 4:
            return send_honestly(in);
        case 5:
            device_.later.run();
            return;
        case 7:
            if (shares_)
                take_from_queue();
            return;
        default:
            poll(in);
        }
    }

    // The queue pair no longer has a peer. A completion queue that overflowed keeps its completions.
    void expect_no_receive_lost()
    {
        ring_.return_lent(lent::all);
        while (take_completions(4) > 0)
            ;
        while (shares_ && take_from_queue())
            ;
        if (shares_ && !posted_.empty() && !pair_.b.cq->overflowed())
            abort();
    }

    void expect_the_rest_untouched() const
    {
        const auto rest = std::span(pair_.b.memory).subspan(receive_area + max_receive);
        if (!std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == untouched; }))
            abort();
    }

private:
    void post(input &in)
    {
        const std::uint32_t length = in.number(2) % (max_receive + 1);
        const ibv_sge list = pair_.b.sge(in.number(2) % receive_area, length);
        if ((shares_ ? post_one(srq_, next_, list) : post_one(*pair_.b.qp, next_, list)) == 0)
            posted_[next_++] = length;
    }

    // Takes a receive like a message of another queue pair.
    bool take_from_queue()
    {
        const auto taken = srq_.take();
        if (taken && posted_.erase(taken->wr_id) == 0)
            abort();
        return taken.has_value();
    }

    // Delivers a message like a peer.
    void deliver(input &in)
    {
        const std::uint64_t position = ring_.position() + in.number(1) % 2;
        const qp_block &shared = ring_.shared();
        auto &slot = *reinterpret_cast<receive_slot *>(
                ring_.memory().at + ring_offset + position % capacity_ * shared_stride_);
        slot.flags = static_cast<std::uint8_t>(in.number(1));
        slot.length = in.number(4);
        slot.bounced = in.number(4);
        slot.done = position + 1;
        if (in.number(1) % 2 == 0)
            cq_words().announce(shared.cq_bit);
    }

    static void overwrite(const block &memory, input &in)
    {
        const std::size_t at = in.number(4) % memory.size;
        const std::size_t bytes = std::min<std::size_t>(in.number(1) % 16, memory.size - at);
        for (std::size_t i = 0; i < bytes; ++i)
            memory.at[at + i] = static_cast<std::byte>(in.number(1));
    }

    void send_honestly(input &in)
    {
        static_cast<void>(pair_.a.send(IBV_WR_SEND, 0, pair_.a.sge(0, in.number(2) % max_receive), pair_.b));
        static_cast<void>(pair_.a.poll());
    }

    void poll(input &in) { take_completions(static_cast<int>(in.number(1) % 4 + 1)); }

    int take_completions(int limit)
    {
        std::array<ibv_wc, 4> found{};
        const int count = pair_.b.cq->poll(limit, found.data());
        for (const ibv_wc &wc : std::span(found).first(static_cast<std::size_t>(std::max(count, 0)))) {
            const auto receive = posted_.find(wc.wr_id);
            if (receive == posted_.end())
                abort();
            if (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len > receive->second)
                abort();
            posted_.erase(receive);
        }
        return count;
    }

    cq_block &cq_words() const noexcept { return *reinterpret_cast<cq_block *>(pair_.b.cq->memory().at); }

    const bool shares_;
    verbs_device device_;
    shared_receive_queue srq_{
            &device_.pd, {.srq_context = nullptr, .attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0}}};
    connected_pair pair_{device_, {.srq = shares_ ? &srq_ : nullptr, .start = {.position = UINT32_MAX - 2}}};
    receive_queue &ring_ = pair_.b.qp->receives();
    const std::uint32_t shared_stride_ = ring_.shared().ring_stride; // a peer can overwrite it
    const std::uint32_t capacity_ = ring_.shared().ring_capacity;
    std::uint64_t next_ = 1;
    std::map<std::uint64_t, std::uint32_t> posted_; // length of each receive
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    input in(data, size);
    receiver r(size % 2 == 1);
    while (!in.done())
        r.act(in);
    r.expect_no_receive_lost();
    r.expect_the_rest_untouched();
    return 0;
}
