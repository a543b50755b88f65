// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/unique_fd.hpp"
#include "transport/datagram_path.hpp"
#include "transport/shared_layout.hpp"

#include <memory>
#include <sys/mman.h>

namespace softrdma
{

// Ring for the datagrams of one process to another one on its host: an endless sequence of bytes with one writer and
// one reader. A contiguous datagram becomes valid with the last store of its writer, so a partial one is never read.
// Each side relies on its private copy of its position.

inline constexpr std::size_t ring_data_size = 4 << 20; // sparse: only touched pages use memory
inline constexpr std::size_t ring_size = page + ring_data_size;

// Words in the first page of a ring. The data follows: position p is at (p - restart) % ring_data_size. Rows in
// docs/softrdma.md: `sequence`, `restart`, `taken`.
// - The writer clears `sequence` of the next record, writes the record and its payload, and then sets `sequence`. A
//   writer that is killed before has written no datagram.
// - The reader stores `taken` after it has copied a payload. A writer with an old value finds less space, and loses
//   its datagram as in a network. An impossible value means a full ring.
// - The reader sets `asleep` before it sleeps, and then checks the ring once more; the writer clears it and wakes the
//   reader. A false value costs a wakeup, or delays the datagrams of the process that has forged it.
// - The writer sets `restart` when the ring is empty. The reader uses it only if it is the reader's own position.
// - The reader loads `flags` and `length` once and checks them. All other members may have any value, as in a packet:
//   the addresses must belong to this host, and the ports of the numbers are known from the offer of the ring.
struct ring_control {
    alignas(cache_line) std::atomic<std::uint64_t> taken;   // the reader's position
    alignas(cache_line) std::atomic<std::uint32_t> asleep;  // the reader requests a wakeup
    alignas(cache_line) std::atomic<std::uint64_t> restart; // the writer's position when it found the ring empty
};

enum ring_record_flags : std::uint8_t {
    ring_solicited = 1,
    ring_immediate = 2,
    ring_skip = 4, // not a datagram: the next one is at the beginning of the data
};

// Starts at a cache line, which also contains the first 8 bytes of the payload.
struct ring_record {
    std::atomic<std::uint64_t> sequence; // its position + 1 once it is complete
    std::uint32_t qkey;
    std::uint32_t imm_data;
    std::uint8_t psn[3];
    std::uint8_t flags;
    std::uint16_t length; // bytes of the payload
    std::uint8_t dest;    // the last byte of each number; the rest is the port that the number belongs to
    std::uint8_t source;
    network_address source_address;
    network_address destination_address;
};
static_assert(sizeof(ring_record) == cache_line - sizeof(std::uint64_t));

// Mapping of a ring. Empty, with errno set, on error.
using ring_memory = std::unique_ptr<std::byte, void (*)(std::byte *)>;
ring_memory map_ring(int fd);
// Creates a file of the final size for a ring. Empty, with errno set, on error.
unique_fd create_ring_file();
// Returns whether the descriptor is a ring file of this user, whose size is sealed, so that mapped pages remain.
bool is_ring_file(int fd) noexcept;

// The memory of a ring as one side uses it: the addresses of positions.
class ring_view
{
public:
    ring_view(ring_memory memory, std::uint64_t first) noexcept : memory_(std::move(memory)), restart_(first) {}

    bool is_mapped() const noexcept { return memory_ != nullptr; }
    ring_control &control() const noexcept { return *reinterpret_cast<ring_control *>(memory_.get()); }
    std::uint64_t restart() const noexcept { return restart_; }
    void set_restart(std::uint64_t position) noexcept { restart_ = position; }
    std::uint64_t offset(std::uint64_t position) const noexcept { return (position - restart_) % ring_data_size; }
    // The first later position at the beginning of the data.
    std::uint64_t next_lap(std::uint64_t position) const noexcept
    {
        return position + ring_data_size - offset(position);
    }
    ring_record &record(std::uint64_t position) const noexcept
    {
        return *reinterpret_cast<ring_record *>(memory_.get() + page + offset(position));
    }

private:
    ring_memory memory_;
    std::uint64_t restart_;
};

// Used by one thread at a time. Both sides begin with the same position `first`.
class ring_writer
{
public:
    explicit ring_writer(ring_memory memory, std::uint64_t first = 0) noexcept
        : ring_(std::move(memory), first), position_(first), taken_(first), cleared_(first)
    {
    }

    bool is_mapped() const noexcept { return ring_.is_mapped(); }

    enum class outcome {
        sent,
        sent_to_sleeper, // the reader must be woken
        full,
        fault, // the payload cannot be read
    };
    // Writes a datagram with a payload of `length` bytes, at most max_datagram_payload.
    outcome put(const datagram &d, const datagram_route &route, std::span<const iovec> payload, std::size_t length);

private:
    bool has_space(std::uint64_t end) noexcept;
    void begin_again() noexcept;
    void clear_after_next(std::uint64_t size) noexcept;

    ring_view ring_;
    std::uint64_t position_;
    std::uint64_t taken_;   // last known position of the reader
    std::uint64_t cleared_; // no record starts there until this side writes one
};

// Used by one thread at a time.
class ring_reader
{
public:
    // The datagrams are for queue pairs of the port `own`, from queue pairs of the port `peer`.
    ring_reader(ring_memory memory, std::uint16_t own, std::uint16_t peer, std::uint64_t first = 0) noexcept
        : ring_(std::move(memory), first), position_(first), own_(own), peer_(peer)
    {
    }

    enum class outcome {
        nothing, // no datagram is available
        datagram,
        broken, // invalid data from the writer: the ring must no longer be read
    };
    // Takes the next datagram. It remains in the ring until the next call; its payload may change until then.
    outcome take(datagram &d, network_address &source, network_address &destination) noexcept;
    bool waiting() noexcept;
    // After this call, the writer wakes the reader with its next datagram, unless it has written one already.
    void fall_asleep() noexcept { ring_.control().asleep.store(1, std::memory_order_seq_cst); }

private:
    ring_view ring_;
    std::uint64_t position_; // position of the next datagram
    const std::uint16_t own_;
    const std::uint16_t peer_;
};

} // namespace softrdma
