// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace softrdma
{

inline constexpr std::size_t cache_line = 64;

inline void fetch_to_store(const void *at, std::size_t bytes = 1) noexcept
{
    const auto *begin = static_cast<const char *>(at);
    for (const char *next = begin; next < begin + bytes; next += cache_line) {
#ifdef __x86_64__
        asm volatile("prefetchw %0" : : "m"(*next)); // a CPU without this instruction executes it as a no-op
#else
        __builtin_prefetch(next, 1);
#endif
    }
}

// Layout of the memory in which completion queues and queue pairs publish state for peers. The owner relies on private
// copies only: what a peer can write is a hint, and checked.

inline constexpr std::uint64_t qp_magic = 0x7170626c6f634b31;
inline constexpr std::uint64_t cq_magic = 0x6371626c6f634b31;
inline constexpr std::size_t page = 4096; // unit of the layout, whatever the page size of the machine

// Method that makes a region durable.
enum class region_kind : std::uint32_t {
    unmappable,    // anonymous or private memory: volatile, accessible through the kernel only
    shared_file,   // one shared mapping of a file, written back with msync
    direct_access, // shared mapping of a DAX file, written back by cache line
    mixed,         // several kinds of memory: only the owner can make it durable
};

inline constexpr std::uint32_t region_slots = 1u << 16;
// The lowest bits of a key are a variant that programs choose; the others identify the object, and 16 select its slot.
inline constexpr unsigned key_variant_bits = 8;
constexpr std::uint32_t key_index(std::uint32_t key) noexcept
{
    return key >> key_variant_bits;
}
constexpr std::uint32_t slot_index(std::uint32_t key) noexcept
{
    return key_index(key) % region_slots;
}

enum class interest : std::uint32_t {
    nothing,
    solicited,
    everything,
};

inline constexpr std::size_t work_words = 64;

// Word with which the owner requests an event: the unique number of the arming, and the completions that it covers.
constexpr std::uint64_t arming_word(std::uint64_t number, interest in) noexcept
{
    return number << 2 | static_cast<std::uint32_t>(in);
}

// Words of a completion queue whose messages arrive through shared memory. The process that polls it is its owner; the
// peers of its queue pairs are senders. Rows in docs/softrdma.md: `work`, `work`/`done`, `event_fd`, `signaled`,
// `used`.
// - The owner writes `magic`, `serial` and `event_fd` before a peer knows the block.
// - A sender delivers a message, sets the bit of the queue pair in `work`, and then the bit of that word in `summary`.
//   The owner takes `summary` first and `work` second, so it misses no bit. A bit without a message is harmless: the
//   owner finds the ring of that queue pair empty.
// - The owner stores `armed` and polls once more; a sender announces its message and loads `armed`. One of the two
//   therefore finds the message.
// - A sender that an arming covers writes to `event_fd`, and then stores the number of the arming in `signaled`. A late
//   store contains an older number, so the next sender writes to `event_fd` once more, without effect.
// - `used` may be too large, because a sender can be killed between its count and its message. If it means full, the
//   owner counts entries and delivered messages itself.
struct cq_block {
    std::uint64_t magic;
    std::uint64_t serial;               // unique within an arena
    std::atomic<std::int32_t> event_fd; // -1 if the queue has no completion channel
    // A queue that could overflow counts the entries that were added and not polled yet.
    std::atomic<std::uint32_t> counted;
    std::atomic<std::uint32_t> capacity;
    alignas(cache_line) std::atomic<std::int32_t> used;
    alignas(cache_line) std::atomic<std::uint64_t> armed; // see arming_word(); only the owner writes it
    std::atomic<std::uint64_t> signaled;                  // number of an arming whose event has been written
    // Bits of queue pairs that may have messages: `work` has one for each, `summary` one for each word of `work`.
    alignas(cache_line) std::atomic<std::uint64_t> summary;
    alignas(cache_line) std::array<std::atomic<std::uint64_t>, work_words> work;

    // Returns the arming that requests an event for an announced message, and that has no event yet; otherwise 0.
    std::uint64_t event_due(bool urgent) const noexcept
    {
        const std::uint64_t word = armed.load(std::memory_order_seq_cst);
        const auto in = static_cast<interest>(word & 3);
        if (in != interest::everything && !(in == interest::solicited && urgent))
            return 0;
        return word >> 2 == signaled.load(std::memory_order_acquire) ? 0 : word >> 2;
    }
    // The next poll of the owner drains the queue pair of that bit.
    void announce(std::uint32_t bit) noexcept
    {
        const std::uint32_t word = bit / 64 % work_words;
        work[word].fetch_or(std::uint64_t{1} << bit % 64, std::memory_order_seq_cst);
        summary.fetch_or(std::uint64_t{1} << word, std::memory_order_seq_cst);
    }
};

// State word of a queue pair: number of its connection, and whether it is open to its peer, which compares the word at
// each operation. The number, unique within an arena, is 0 after a reset and when the queue pair is destroyed.
constexpr std::uint64_t state_word(std::uint64_t connection, bool open) noexcept
{
    return connection << 1 | (open ? 1 : 0);
}

// Both ends of the TCP connection of a queue pair, as its owner sees it. An unauthenticated peer that knows all other
// data of the queue pair still cannot be at the other end of that connection.
struct connection_ends {
    std::array<std::uint8_t, 16> own_address{};
    std::array<std::uint8_t, 16> peer_address{};
    std::uint16_t own_port = 0;
    std::uint16_t peer_port = 0;

    bool operator==(const connection_ends &) const = default;
    connection_ends reversed() const noexcept { return {peer_address, own_address, peer_port, own_port}; }
};

// Words of a queue pair, stored before the ring of receives: see words_offset(). The process of the queue pair is the
// owner. Its peer is the one process that executes requests in its memory and delivers messages. Rows in
// docs/softrdma.md: `state`, `qp_block::access`, `qp_block::epoch`, `region_in_use`, `watched`, `receive_requested`,
// `bounced_out`.
// - The owner writes the plain members before the state word that belongs to them. The peer copies them once, when it
//   maps the block, and checks their bounds.
// - `state` changes with each connection and each change of whether the queue pair is open. The peer compares it inside
//   a section. An operation that has read an older word is in a section, for which the owner waits.
// - `access` and `rnr_timer` may be old. The operation was then started before the program changed them.
// - `epoch` and `region_in_use` describe the owner's operations on the memory of the peer, which waits for them before
//   it removes a region. With a forged `epoch` that removal fails after `grace_limit`, as it does with a stopped peer.
// - `watched` may be old: the owner checks the ring once more after it has cleared the word.
// - `receive_requested` is the only word that the peer writes. A false value costs the owner a network message.
// - `bounced_out` may be old: the peer then finds less free space, and sends the message over the network.
struct qp_block {
    std::uint64_t magic;
    std::uint32_t ring_capacity;
    std::uint32_t ring_stride;
    std::uint32_t max_sge;
    std::uint32_t lent; // 1 if a shared queue lends the receives
    std::uint64_t domain;
    std::uint64_t own_domain; // domain of objects that only this queue pair may use: type 2 windows
    std::uint64_t cq_offset;  // offset of the receive completion queue's block
    std::uint32_t cq_bit;
    connection_ends ends;
    alignas(cache_line) std::atomic<std::uint64_t> state; // see state_word()
    std::atomic<std::uint32_t> access;
    std::atomic<std::uint32_t> rnr_timer;
    std::atomic<std::uint32_t> watched;                   // the owner polls the ring without announcements
    alignas(cache_line) std::atomic<std::uint32_t> epoch; // odd while the owner is inside an operation
    std::atomic<std::uint32_t> region_in_use;             // key that the owner has looked up last
    // Not 0 if the peer requests a message when a receive is posted.
    alignas(cache_line) std::atomic<std::uint32_t> receive_requested;
    alignas(cache_line) std::atomic<std::uint32_t> bounced_out; // position up to which the owner has emptied the buffer
};

inline constexpr std::size_t ring_offset = page / 2;

// Offset of a queue pair's words in its block, which is at that offset of the arena. The offset differs between blocks,
// because words at the same offset of many pages would compete for a few cache sets.
constexpr std::size_t words_offset(std::uint64_t block_offset) noexcept
{
    constexpr std::size_t offsets = 23; // prime: blocks at regular distances get different ones
    static_assert((offsets - 1) * cache_line + sizeof(qp_block) <= ring_offset);
    return block_offset / page % offsets * cache_line;
}

// The bounce buffer follows the ring. It contains messages that do not fit into their slot. It is an endless sequence
// of bytes, in which byte p is at p % bounce_buffer_size. A message is contiguous and starts at a cache line.
inline constexpr std::size_t inline_size = 256;
inline constexpr std::uint32_t bounce_buffer_size = 64 * 1024;
inline constexpr std::uint32_t max_bounced = 16 * 1024; // upper limit

constexpr std::size_t bounce_buffer_offset(std::uint32_t ring_capacity, std::uint32_t ring_stride) noexcept
{
    return (ring_offset + std::size_t{ring_capacity} * ring_stride + page - 1) / page * page;
}
constexpr std::size_t block_size(std::uint32_t ring_capacity, std::uint32_t ring_stride) noexcept
{
    return bounce_buffer_offset(ring_capacity, ring_stride) + bounce_buffer_size;
}
constexpr std::uint32_t whole_lines(std::size_t bytes) noexcept
{
    return static_cast<std::uint32_t>((bytes + cache_line - 1) / cache_line * cache_line);
}

enum slot_flags : std::uint8_t {
    slot_solicited = 1,
    slot_immediate = 2,
    slot_inlined = 4,
    slot_write = 8, // the message is an RDMA WRITE with immediate data
    slot_bounced = 16,
};

// Initial counters of a queue pair's block: tests start shortly before a wraparound.
struct ring_start {
    std::uint64_t position = 0; // position of the first receive
    std::uint64_t tokens = 0;
    std::uint32_t bounced = 0; // whole lines
};

struct slot_sge {
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t key;
};

// One posted receive and the message that consumed it. Position p of the endless sequence of receives uses slot p %
// capacity. `posted` and `done` hold p + 1, so that 0 is not a position and older contents of the slot are ignored.
// While a receive is lent and has no message yet, `done` holds a token, which changes whenever the owner lends or
// reclaims. A message must replace exactly that token. Positions and tokens have 63 bits and do not repeat.
// - The owner writes `capacity`, `sge_count`, `owner_only` and the elements, and then `posted`. They keep their values
//   until the slot is posted again, except that `owner_only` is set if a region changes. The owner has a private copy
//   of the receive, and relies only on that.
// - The peer reads `posted` before the contents. It writes `length`, `imm_data`, `flags` and the data, and then `done`.
//   A message of a peer that is killed before that store does not exist.
// - The owner reads `done` before the message, and each member of the message once. It checks `length` and `bounced`
//   against its copy before it uses them.
// Rows in docs/softrdma.md: `receive_slot`, `posted`, message, and the rows that begin with "lent".
struct alignas(cache_line) receive_slot {
    std::atomic<std::uint64_t> posted;
    std::atomic<std::uint64_t> done;
    std::uint32_t capacity; // bytes
    std::uint32_t length;
    std::uint32_t imm_data;
    std::uint16_t sge_count;
    std::uint8_t owner_only; // only the owner can place a message here
    std::uint8_t flags;
    union {
        std::array<std::byte, inline_size> inlined;
        std::uint32_t bounced; // offset of the message in the bounce buffer
    };
    slot_sge *sges() noexcept { return reinterpret_cast<slot_sge *>(this + 1); }
};
static_assert(offsetof(receive_slot, inlined) == cache_line / 2);

inline constexpr std::uint64_t token_bit = std::uint64_t{1} << 63; // set in each token, clear in each position

} // namespace softrdma
