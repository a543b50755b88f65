// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/datagram_ring.hpp"
#include "base/assert.hpp"
#include "base/copy.hpp"
#include "base/guard.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace softrdma
{

constexpr int ring_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// Offset from which an empty ring returns to the beginning of its data, so that its lines stay in a cache.
constexpr std::uint64_t rewind_threshold = 64 << 10;

// Loads a value once, so that the value that was checked is the one that is used.
template<typename T>
static T load_once(const T &from) noexcept
{
    return __atomic_load_n(&from, __ATOMIC_RELAXED);
}

ring_memory map_ring(int fd)
{
    const auto unmap = [](std::byte *at) { munmap(at, ring_size); };
    void *at = mmap(nullptr, ring_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return {at == MAP_FAILED ? nullptr : static_cast<std::byte *>(at), unmap};
}

unique_fd create_ring_file()
{
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < ring_size) // exceeding the limit raises a signal
        return {};
    unique_fd file(memfd_create("softrdma-datagrams", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (file.get() < 0 || ftruncate(file.get(), ring_size) != 0 || fcntl(file.get(), F_ADD_SEALS, ring_seals) != 0)
        return {};
    return file;
}

bool is_ring_file(int fd) noexcept
{
    struct stat file = {};
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & ring_seals) == ring_seals && fstat(fd, &file) == 0 && file.st_uid == geteuid() &&
           file.st_size == static_cast<off_t>(ring_size);
}

bool ring_writer::has_space(std::uint64_t end) noexcept
{
    if (end - taken_ <= ring_data_size)
        return true;
    // A reader with an invalid position grants no space.
    const std::uint64_t taken = ring_.control().taken.load(std::memory_order_acquire);
    if (taken > position_ || end - taken > ring_data_size)
        return false;
    SOFTRDMA_ASSERT(taken <= position_);
    taken_ = taken;
    return true;
}

// Clears the line after the next datagram, assuming that it has the same length. Clearing it later would stall between
// two stores to the line that the reader polls and takes away: a fifth of the time of 8 bytes.
void ring_writer::clear_after_next(std::uint64_t size) noexcept
{
    const std::uint64_t after_next = position_ + size;
    if (after_next + cache_line - taken_ > ring_data_size)
        return;
    ring_.record(after_next).sequence.store(0, std::memory_order_relaxed);
    cleared_ = after_next;
}

// Continues at the beginning of the data, all of which is free. Positions continue without a gap, so that no byte of
// the capacity is lost until the reader follows. The first line of the data always begins a record, here an older one.
// The former line of this position is overwritten by later datagrams only after the reader can see the restart.
void ring_writer::begin_again() noexcept
{
    taken_ = position_;
    ring_.set_restart(position_);
    cleared_ = position_; // this position ends no datagram
    ring_.control().restart.store(position_, std::memory_order_seq_cst);
}

ring_writer::outcome ring_writer::put(
        const datagram &d, const datagram_route &route, std::span<const iovec> payload, std::size_t length)
{
    const std::uint64_t size = whole_lines(sizeof(ring_record) + length);
    if (ring_.offset(position_) >= rewind_threshold &&
            ring_.control().taken.load(std::memory_order_acquire) == position_)
        begin_again();
    SOFTRDMA_ASSERT(ring_.offset(position_) % cache_line == 0);
    const bool fits = ring_data_size - ring_.offset(position_) >= size;
    const std::uint64_t begin = fits ? position_ : ring_.next_lap(position_);
    // The line after the datagram marks it as the last.
    if (!has_space(begin + size + cache_line))
        return outcome::full;
    SOFTRDMA_ASSERT(ring_.offset(begin) + size <= ring_data_size); // contiguous
    ring_record &r = ring_.record(begin);
    if (!guarded([&] { gather_segments(reinterpret_cast<std::byte *>(&r + 1), payload); }))
        return outcome::fault;
    r.qkey = d.qkey;
    r.imm_data = d.imm_data;
    for (int i = 0; i < 3; ++i)
        r.psn[i] = static_cast<std::uint8_t>(d.psn >> 8 * i);
    r.flags = static_cast<std::uint8_t>((d.solicited ? ring_solicited : 0) | (d.immediate ? ring_immediate : 0));
    r.length = static_cast<std::uint16_t>(length);
    r.dest = static_cast<std::uint8_t>(d.dest_qpn);
    r.source = static_cast<std::uint8_t>(d.source_qpn);
    r.source_address = route.source;
    r.destination_address = route.destination;
    // The line may contain payload of an earlier lap, that is, any data of a program.
    const std::uint64_t end = begin + size;
    if (cleared_ != end)
        ring_.record(end).sequence.store(0, std::memory_order_relaxed);
    if (begin != position_) {
        r.sequence.store(begin + 1, std::memory_order_release);
        ring_.record(position_).flags = ring_skip;
    }
    ring_.record(position_).sequence.store(position_ + 1, std::memory_order_seq_cst);
    position_ = end;
    clear_after_next(size);
    std::atomic<std::uint32_t> &asleep = ring_.control().asleep;
    const bool wake = asleep.load(std::memory_order_seq_cst) != 0 && asleep.exchange(0) != 0;
    return wake ? outcome::sent_to_sleeper : outcome::sent;
}

// Returns whether a datagram is available. After a restart, the former location may contain any payload.
bool ring_reader::waiting() noexcept
{
    const bool whole = ring_.record(position_).sequence.load(std::memory_order_seq_cst) == position_ + 1;
    if (ring_.control().restart.load(std::memory_order_seq_cst) != position_ || ring_.restart() == position_)
        return whole;
    ring_.set_restart(position_);
    return ring_.record(position_).sequence.load(std::memory_order_seq_cst) == position_ + 1;
}

ring_reader::outcome ring_reader::take(datagram &d, network_address &source, network_address &destination) noexcept
{
    ring_.control().taken.store(position_, std::memory_order_release);
    if (!waiting())
        return outcome::nothing;
    if (load_once(ring_.record(position_).flags) == ring_skip) {
        if (ring_.offset(position_) == 0) // a writer could continue like that forever
            return outcome::broken;
        position_ = ring_.next_lap(position_);
        if (ring_.record(position_).sequence.load(std::memory_order_acquire) != position_ + 1)
            return outcome::broken;
    }
    const ring_record &r = ring_.record(position_);
    const std::uint8_t flags = load_once(r.flags);
    const std::size_t length = load_once(r.length);
    const std::uint64_t size = whole_lines(sizeof(ring_record) + length);
    if ((flags & ~(ring_solicited | ring_immediate)) != 0 || length > max_datagram_payload ||
            ring_data_size - ring_.offset(position_) < size)
        return outcome::broken;
    d.solicited = (flags & ring_solicited) != 0;
    d.immediate = (flags & ring_immediate) != 0;
    d.dest_qpn = std::uint32_t{own_} << 8 | r.dest;
    d.source_qpn = std::uint32_t{peer_} << 8 | r.source;
    d.psn = r.psn[0] | std::uint32_t{r.psn[1]} << 8 | std::uint32_t{r.psn[2]} << 16;
    d.qkey = r.qkey;
    d.imm_data = r.imm_data;
    d.payload = {reinterpret_cast<const std::byte *>(&r + 1), length};
    source = r.source_address;
    destination = r.destination_address;
    position_ += size;
    return outcome::datagram;
}

} // namespace softrdma
