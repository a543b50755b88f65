// SPDX-License-Identifier: BSD-3-Clause
// Readers of memory that a peer on this host shares. The arena is valid except for the bytes that the input changes,
// before and after the peer is accepted, and between requests.
#include "impostor.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/eventfd.h>

using namespace softrdma;

namespace
{

constexpr connection_ends ends{.own_address = {1}, .peer_address = {2}, .own_port = 3, .peer_port = 4};
constexpr std::uint64_t file_offset = 12 << 20; // offset in the arena of the blocks of a shared file
constexpr std::size_t region_size = 1 << 16;
constexpr std::uint32_t regions = 4;
constexpr std::uint32_t used_slots = 64; // number of slots used in the table of regions
constexpr std::uint64_t domain = 1;

class input
{
public:
    input(const std::uint8_t *data, std::size_t size) noexcept : left_(data, size) {}
    bool done() const noexcept { return left_.empty(); }

    std::span<const std::uint8_t> take(std::size_t bytes) noexcept
    {
        const auto part = left_.first(std::min(bytes, left_.size()));
        left_ = left_.subspan(part.size());
        return part;
    }

    template<typename T>
    T number() noexcept
    {
        T value{};
        const auto part = take(sizeof(value));
        std::copy(part.begin(), part.end(), reinterpret_cast<std::uint8_t *>(&value));
        return value;
    }

private:
    std::span<const std::uint8_t> left_;
};

class honest_peer
{
public:
    static honest_peer &instance()
    {
        static honest_peer one;
        return one;
    }

    // Restores the initial state.
    void restore()
    {
        const iovec token{&i_.h.token, sizeof(i_.h.token)};
        const iovec there{i_.token, sizeof(i_.h.token)};
        process_vm_writev(i_.pid, &token, 1, &there, 1, 0);
        memcpy(i_.memory, &header_, sizeof(header_));
        memset(i_.memory + page, 0, used_slots * sizeof(region_slot));
        memset(i_.memory + impostor::qp_offset, 0, bounce_buffer_offset(impostor::receives, impostor::stride));
        write_blocks(i_, ends);
        reinterpret_cast<cq_block *>(i_.memory + impostor::cq_offset)->event_fd = completion_fd_;
        for (std::uint32_t n = 1; n <= regions; ++n)
            publish(n);
        for (std::uint32_t n = 0; n < impostor::receives; ++n)
            post_receive(n);
    }

    void change(input &in)
    {
        constexpr std::uint64_t places[] = {0, page, page + sizeof(region_slot), impostor::words,
                impostor::qp_offset + ring_offset, impostor::cq_offset};
        const std::uint64_t place = places[in.number<std::uint8_t>() % std::size(places)];
        const std::uint64_t offset = in.number<std::uint16_t>() % page;
        const auto bytes = in.take(in.number<std::uint8_t>() % 16);
        std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::uint8_t *>(i_.memory + place + offset));
    }

    std::shared_ptr<shm_ep> open(input &in)
    {
        shm_address h = i_.h;
        if (in.number<std::uint8_t>() % 4 == 0) {
            h.qp_offset ^= in.number<std::uint64_t>();
            h.qp_size ^= in.number<std::uint64_t>();
        }
        std::string reason;
        return open_channel(i_, h, ends, reason);
    }

private:
    honest_peer()
    {
        setenv("SOFTRDMA_TRANSPORT", "auto", 1);
        private_ = new std::byte[region_size]{};
        completion_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        i_ = make_impostor();
        memcpy(&header_, i_.memory, sizeof(header_));
        restore();
        std::string reason;
        if (open_channel(i_, i_.h, ends, reason) == nullptr) {
            printf("skipped: no process can be reached here: %s\n", reason.c_str());
            exit(77);
        }
    }

    void publish(std::uint32_t key)
    {
        auto &slot = *new (i_.memory + page + key * sizeof(region_slot)) region_slot{};
        const bool is_file = key % 2 == 0;
        slot.domain = domain;
        slot.access = ~0u;
        slot.base = 0;
        slot.length = region_size;
        slot.address = reinterpret_cast<std::uintptr_t>(is_file ? i_.memory + file_offset : private_);
        slot.kind = is_file ? region_kind::shared_file : region_kind::unmappable;
        slot.key = key << key_variant_bits;
    }

    void post_receive(std::uint32_t position)
    {
        auto *at = i_.memory + impostor::qp_offset + ring_offset + position * impostor::stride;
        auto &slot = *reinterpret_cast<receive_slot *>(at);
        slot.capacity = 4096;
        slot.sge_count = 2;
        slot.sges()[0] = {.address = 0, .length = 1024, .key = 1 << key_variant_bits};
        slot.sges()[1] = {.address = 2048, .length = 3072, .key = 1 << key_variant_bits};
        slot.posted = position + 1;
    }

    impostor i_;
    arena_header header_{};
    std::byte *private_ = nullptr; // at the same address in both processes
    int completion_fd_ = -1;
};

void use(shm_ep &c, input &in)
{
    static std::array<std::byte, region_size> data;
    const std::size_t bytes = in.number<std::uint16_t>();
    const std::size_t cut = std::min<std::size_t>(in.number<std::uint8_t>(), bytes);
    const std::array<iovec, 2> pieces{iovec{data.data(), cut}, iovec{data.data() + cut, bytes - cut}};
    const auto kind = in.number<std::uint8_t>();
    if (kind % 3 == 0) {
        c.deliver({.length = static_cast<std::uint32_t>(bytes),
                          .imm_data = 0,
                          .flags = static_cast<std::uint8_t>(kind % 2 == 0 ? slot_solicited : slot_write)},
                pieces);
        return;
    }
    // One number in each statement, because their order is that of the input.
    const std::uint32_t key = std::uint32_t{in.number<std::uint8_t>()} << key_variant_bits;
    const auto at = in.number<std::uint32_t>();
    if (kind % 3 == 1)
        c.write(key, at, pieces, static_cast<std::uint32_t>(bytes));
    else
        c.read(key, at, pieces, static_cast<std::uint32_t>(bytes));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    honest_peer &peer = honest_peer::instance();
    input in(data, size);
    peer.restore();
    for (unsigned n = in.number<std::uint8_t>() % 4; n > 0; --n)
        peer.change(in);
    const auto c = peer.open(in);
    while (c != nullptr && !in.done()) {
        if (in.number<std::uint8_t>() % 2 == 0)
            peer.change(in);
        else
            use(*c, in);
    }
    return 0;
}
