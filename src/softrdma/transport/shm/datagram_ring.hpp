// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/unique_fd.hpp"
#include "transport/datagram_path.hpp"
#include "transport/shared_layout.hpp"

#include <memory>
#include <sys/mman.h>

namespace softrdma::local
{

// The datagrams of one process for another one of its host, in memory that both map: an endless sequence of bytes with
// one writer and one reader, in which each datagram lies in one piece. A datagram counts from one store on, the last
// one of its writer: what a process was at when it was stopped or killed is never seen. Each side keeps its own
// position to itself and takes nothing that the other one has stored for more than a hint.

inline constexpr std::size_t ring_data_size = 4 << 20; // sparse: only touched pages take memory
inline constexpr std::size_t ring_size = page + ring_data_size;

// In the first page. The rest is the data: position p is at (p - restart) % ring_data_size.
struct ring_control {
    alignas(line) std::atomic<std::uint64_t> taken;   // the reader's position
    alignas(line) std::atomic<std::uint32_t> asleep;  // the reader wants to be woken
    alignas(line) std::atomic<std::uint64_t> restart; // the writer's position when it found the ring empty
};

enum ring_record_flags : std::uint8_t {
    ring_solicited = 1,
    ring_immediate = 2,
    ring_skip = 4, // no datagram: the next one is at the beginning of the data
};

// Begins with a line and is followed by the payload, of which 8 bytes lie in the same line.
struct ring_record {
    std::atomic<std::uint64_t> sequence; // its position + 1 once it is whole
    std::uint32_t qkey;
    std::uint32_t imm_data;
    std::uint8_t psn[3];
    std::uint8_t flags;
    std::uint16_t length; // of the payload
    std::uint8_t dest;    // the last byte of each number: the rest is the port that it belongs to
    std::uint8_t source;
    network_address source_address;
    network_address destination_address;
};
static_assert(sizeof(ring_record) == line - sizeof(std::uint64_t));

// What both sides map. Empty with errno.
using ring_memory = std::unique_ptr<std::byte, void (*)(std::byte *)>;
ring_memory map_ring(int fd);
// A file for a ring, of its final size; none with errno.
unique_fd create_ring_file();
// Whether the descriptor is such a file, of this user: then what is mapped of it stays there.
bool is_ring_file(int fd) noexcept;

// The memory of a ring, and the places of positions in it as one side knows them.
class ring_places
{
public:
    ring_places(ring_memory memory, std::uint64_t first) noexcept : memory_(std::move(memory)), restart_(first) {}

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
        : places_(std::move(memory), first), position_(first), taken_(first), cleared_(first)
    {
    }

    bool is_mapped() const noexcept { return places_.is_mapped(); }

    enum class outcome {
        sent,
        sent_to_sleeper, // the reader has to be woken
        full,
        fault, // the payload cannot be read
    };
    // The payload is of `length` bytes, at most max_datagram_payload.
    outcome put(const datagram &d, const datagram_route &route, std::span<const iovec> payload, std::size_t length);

private:
    bool has_room(std::uint64_t end) noexcept;
    void begin_again() noexcept;
    void clear_after_next(std::uint64_t size) noexcept;

    ring_places places_;
    std::uint64_t position_;
    std::uint64_t taken_;   // position of the reader, as far as is known here
    std::uint64_t cleared_; // no record begins there before this side makes one
};

// Used by one thread at a time.
class ring_reader
{
public:
    // The datagrams are for queue pairs of the port `own`, from those of the port `peer`.
    ring_reader(ring_memory memory, std::uint16_t own, std::uint16_t peer, std::uint64_t first = 0) noexcept
        : places_(std::move(memory), first), position_(first), own_(own), peer_(peer)
    {
    }

    enum class outcome {
        nothing, // for now
        datagram,
        broken, // nobody who keeps the rules has written that: the ring is not to be read any more
    };
    // What is taken stays where it is until the next call; the payload may change until then.
    outcome take(datagram &d, network_address &source, network_address &destination) noexcept;
    bool waiting() noexcept;
    // Afterwards the writer wakes this side with its next datagram, or has written one already.
    void fall_asleep() noexcept { places_.control().asleep.store(1, std::memory_order_seq_cst); }

private:
    ring_places places_;
    std::uint64_t position_; // position of what is taken next
    const std::uint16_t own_;
    const std::uint16_t peer_;
};

} // namespace softrdma::local
