// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/shm_ep.hpp"
#include "base/assert.hpp"
#include "base/guard.hpp"
#include "base/put_event.hpp"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>

namespace softrdma
{

namespace
{

constexpr std::uint32_t max_capacity = 1u << 16;
constexpr std::uint32_t max_sges = 64;
// Bytes of a message in the cache line that the peer polls.
constexpr std::uint32_t in_first_line = cache_line - offsetof(receive_slot, inlined);

// Maximum length for which the lines of the next message are prefetched. A SEND of 4 KiB then takes 930 ns instead of
// 1160 on Intel CPUs, but 370 ns instead of 270 on AMD CPUs, where the next accesses of the program wait for the lines.
constexpr std::uint32_t max_prefetch = 4096;

bool peer_gone(const void *peer)
{
    return static_cast<const peer_process *>(peer)->gone();
}

[[gnu::noinline]] void gather_segments(std::byte *to, std::span<const iovec> from) noexcept
{
    for (const iovec &segment : from) {
        memcpy(to, segment.iov_base, segment.iov_len);
        to += segment.iov_len;
    }
}

void gather(std::byte *to, std::span<const iovec> from) noexcept
{
    if (from.size() == 1 && from[0].iov_len == sizeof(std::uint64_t)) // most notifications are one word
        memcpy(to, from[0].iov_base, sizeof(std::uint64_t));
    else
        gather_segments(to, from);
}

// Takes consecutive parts from the front of a scatter list.
class scatter_front
{
public:
    explicit scatter_front(std::span<const iovec> list) noexcept : list_(list) {}

    // Takes the first `bytes` bytes of the list; `bytes` must not exceed the rest. The result is valid until the next
    // call.
    std::span<const iovec> take(std::size_t bytes) noexcept
    {
        std::size_t count = 0;
        for (; bytes > 0; ++count) {
            SOFTRDMA_ASSERT(!list_.empty() && count < taken_.size());
            const iovec &first = list_.front();
            const std::size_t taken = std::min(bytes, first.iov_len - used_);
            taken_[count] = {static_cast<std::byte *>(first.iov_base) + used_, taken};
            bytes -= taken;
            used_ += taken;
            if (used_ == first.iov_len) {
                list_ = list_.subspan(1);
                used_ = 0;
            }
        }
        return {taken_.data(), count};
    }

private:
    std::span<const iovec> list_;
    std::size_t used_ = 0; // bytes of its first element that are taken
    std::array<iovec, max_sges> taken_;
};

} // namespace

std::shared_ptr<remote_cq> remote_cq::open(
        const std::shared_ptr<peer_process> &peer, std::uint64_t offset, unique_fd given)
{
    auto cq = std::make_shared<remote_cq>();
    cq->peer_ = peer;
    cq->memory_ = peer->share(offset, sizeof(cq_block));
    if (cq->memory_ == nullptr)
        return nullptr;
    cq->block_ = reinterpret_cast<cq_block *>(cq->memory_.get());
    if (cq->block_->magic != cq_magic)
        return nullptr;
    const int completion_fd = cq->block_->event_fd.load(std::memory_order_relaxed);
    if (completion_fd >= 0)
        cq->completion_fd_ = peer->is_self() ? unique_fd(fcntl(completion_fd, F_DUPFD_CLOEXEC, 0)) : std::move(given);
    return completion_fd < 0 || cq->completion_fd_.get() >= 0 ? cq : nullptr;
}

bool remote_cq::reserve() noexcept
{
    if (block_->counted.load(std::memory_order_relaxed) == 0)
        return true;
    const auto capacity = static_cast<std::int32_t>(block_->capacity.load(std::memory_order_relaxed));
    if (block_->used.fetch_add(1, std::memory_order_relaxed) < capacity)
        return true;
    block_->used.fetch_sub(1, std::memory_order_relaxed);
    return false;
}

void remote_cq::release_entry() noexcept
{
    if (block_->counted.load(std::memory_order_relaxed) != 0)
        block_->used.fetch_sub(1, std::memory_order_relaxed);
}

void remote_cq::announce(std::uint32_t bit, bool watched) noexcept
{
    if (!watched)
        block_->announce(bit);
}

void remote_cq::wake(bool solicited)
{
    const std::uint64_t arming = block_->event_due(solicited);
    if (arming != 0)
        signal(arming);
}

// Signals the event before it is marked as signaled: a sender that ends in between loses no event.
void remote_cq::signal(std::uint64_t arming)
{
    if (!takes_event(completion_fd_.get()))
        return;
    put_event(completion_fd_.get());
    block_->signaled.store(arming, std::memory_order_release);
}

std::shared_ptr<shm_ep> shm_ep::open(const shm_address &h, const connection_ends &ends, std::string &why)
{
    return open(peer_process::self(h, why), h, ends, unique_fd(), why);
}

std::shared_ptr<shm_ep> shm_ep::open(
        const shm_address &h, const connection_ends &ends, handover given, std::string &why)
{
    auto peer = peer_process::adopt(h, given, why);
    return open(std::move(peer), h, ends, std::move(given.completion_fd), why);
}

std::shared_ptr<shm_ep> shm_ep::open(std::shared_ptr<peer_process> peer, const shm_address &h,
        const connection_ends &ends, unique_fd completion_fd, std::string &why)
{
    if (peer == nullptr)
        return nullptr;
    auto c = std::make_shared<shm_ep>();
    c->peer_ = std::move(peer);
    return c->attach(h, ends, std::move(completion_fd), why) ? c : nullptr;
}

bool shm_ep::attach(const shm_address &h, const connection_ends &ends, unique_fd completion_fd, std::string &why)
{
    why = "the queue pair is not the one announced";
    constexpr std::uint64_t largest = std::uint64_t{1} << 32;
    if (h.qp_size < page || h.qp_size > largest)
        return false;
    memory_ = peer_->share(h.qp_offset, h.qp_size);
    if (memory_ == nullptr)
        return false;
    block_ = reinterpret_cast<qp_block *>(memory_.get() + words_offset(h.qp_offset));
    capacity_ = block_->ring_capacity;
    stride_ = block_->ring_stride;
    max_sge_ = block_->max_sge;
    domain_ = block_->domain;
    own_domain_ = block_->own_domain;
    cq_bit_ = block_->cq_bit;
    connection_ = h.connection;
    lent_ = block_->lent != 0;
    bcopy_threshold_ = lent_ ? max_bounced : peer_->bcopy_threshold();
    if (block_->magic != qp_magic || !(block_->ends == ends.reversed()) || h.connection == 0 ||
            block_->state.load(std::memory_order_acquire) >> 1 != h.connection)
        return false;
    if (!std::has_single_bit(capacity_) || capacity_ > max_capacity || max_sge_ > max_sges ||
            stride_ % cache_line != 0 || stride_ < sizeof(receive_slot) + max_sge_ * sizeof(slot_sge) ||
            block_size(capacity_, stride_) > h.qp_size)
        return false;
    mask_ = capacity_ - 1;
    slots_ = memory_.get() + ring_offset;
    go_to(h.first_receive);
    bounce_buffer_ = memory_.get() + bounce_buffer_offset(capacity_, stride_);
    bounced_ = bounced_out_ = whole_lines(block_->bounced_out.load(std::memory_order_relaxed));
    cq_ = remote_cq::open(peer_, block_->cq_offset, std::move(completion_fd));
    if (cq_ == nullptr)
        return false;
    watched_ = reader_list::instance().add(reader_of_peer());
    watching_ = true;
    why.clear();
    return true;
}

shm_ep::~shm_ep()
{
    if (watching_)
        reader_list::instance().remove(watched_);
}

reader shm_ep::reader_of_peer() const noexcept
{
    return {std::shared_ptr<const std::atomic<std::uint32_t>>(memory_, &block_->epoch), &block_->region_in_use,
            peer_gone, peer_, peer_is_enrolled()};
}

file_mapping *shm_ep::lookup_mapping(remote_region r)
{
    recent_ = peer_->mapping(r);
    recent_slot_ = r.slot;
    recent_generation_ = r.generation;
    return recent_.get();
}

// Cache lines of direct access are written back when stored.
void shm_ep::record_store(const remote_region &r, std::uint32_t bytes)
{
    SOFTRDMA_ASSERT(recent_ != nullptr && r.address >= r.region_address);
    const std::uint64_t begin = r.address - r.region_address;
    if (r.kind == region_kind::direct_access) {
        recent_->write_back(begin, bytes);
        return;
    }
    peer_->mark_unsynced(r);
    unsynced_.merge(recent_, begin, begin + bytes);
}

bool shm_ep::make_durable()
{
    SOFTRDMA_ASSERT(epoch_ != nullptr); // the local queue pair has a path
    const section_pause outside(*epoch_);
    return unsynced_.make_durable([](const auto &file, std::uint64_t begin, std::uint64_t end) {
        const int error = file->write_back(begin, end - begin);
        return error == 0 || error == ENOMEM; // ENOMEM: unmapped by the program, see memory_region::sync_mapped()
    });
}

bool shm_ep::stores_words(std::uint32_t key, std::uint64_t va)
{
    remote_region r;
    return va % word_size == 0 && find(key, IBV_ACCESS_REMOTE_WRITE, va, word_size, r) && r.address % word_size == 0 &&
           mapping(r) != nullptr;
}

copy_result shm_ep::flush(std::uint32_t key, int access, std::uint64_t va, std::uint32_t length, bool persists)
{
    remote_region r;
    if (!grants(access) || !find(key, access, va, length, r))
        return copy_result::unsupported;
    if (!persists || r.kind == region_kind::unmappable || r.kind == region_kind::direct_access)
        return copy_result::done;
    if (mapping(r) == nullptr)
        return copy_result::unsupported;
    const std::shared_ptr<file_mapping> file = recent_;
    const section_pause outside(*epoch_); // see make_durable()
    const int error = file->write_back(r.address - r.region_address, length);
    return error == 0 ? copy_result::done : copy_result::fault;
}

copy_result shm_ep::write_unmapped(remote_region r, std::span<const iovec> from) const
{
    // Memory that only its owner can make durable must be stored to by its owner.
    return r.kind == region_kind::unmappable ? peer_->write(r.address, from) : copy_result::unsupported;
}

copy_result shm_ep::read_part(const remote_region &r, std::span<const iovec> to)
{
    if (file_mapping *file = mapping(r); file != nullptr)
        return file->read(r.address - r.region_address, to) ? copy_result::done : copy_result::fault;
    return peer_->read(r.address, to);
}

// The barrier is executed for the peer too, which posts a receive and then reads the request without a barrier.
void shm_ep::request_receive_event() noexcept
{
    if (block_->receive_requested.exchange(1, std::memory_order_seq_cst) == 0)
        barriers::execute_between_processes(peer_is_enrolled());
}

std::optional<std::uint32_t> shm_ep::bounce_buffer_space(std::uint32_t length) noexcept
{
    SOFTRDMA_ASSERT(length <= max_bounced && bounced_ % cache_line == 0);
    std::uint32_t begin = bounced_;
    if (const std::uint32_t ahead = bounce_buffer_size - begin % bounce_buffer_size; ahead < length)
        begin += ahead;
    SOFTRDMA_ASSERT(begin % bounce_buffer_size + length <= bounce_buffer_size); // contiguous
    const std::uint32_t end = begin + length;
    if (end - bounced_out_ > bounce_buffer_size)
        bounced_out_ = block_->bounced_out.load(std::memory_order_acquire);
    return end - bounced_out_ > bounce_buffer_size ? std::nullopt : std::optional(begin);
}

// Prefetches lines for the next message, assuming that it has the same length, while the program continues. Out of
// line, so that short messages are not slowed down.
[[gnu::noinline]] void shm_ep::prefetch_space(std::uint32_t length) noexcept
{
    if (length > max_prefetch)
        return;
    if (length <= inline_size) {
        const auto *next = reinterpret_cast<const std::byte *>(slot_);
        fetch_to_store(next + cache_line, offsetof(receive_slot, inlined) + length - cache_line);
    } else if (const auto space = bounce_buffer_space(length)) {
        fetch_to_store(bounce_buffer_ + *space % bounce_buffer_size, length);
    }
}

[[gnu::noinline]] copy_result shm_ep::copy_in_parts(
        part_copy copy, remote_region r, std::span<const iovec> list, std::uint32_t length)
{
    SOFTRDMA_ASSERT(length > max_part);
    scatter_front front(list);
    while (length > 0) {
        const std::uint32_t part = std::min(length, max_part);
        if (const copy_result result = (this->*copy)(r, front.take(part)); result != copy_result::done)
            return result;
        r.address += part;
        length -= part;
        if (length > 0 && (!peer_is_open() || !peer_->has(r)))
            return copy_result::unsupported; // the peer determines the result of the request
    }
    return copy_result::done;
}

bool shm_ep::place(const receive_slot &s, std::uint32_t length, std::span<const iovec> from)
{
    const slot_sge *sges = const_cast<receive_slot &>(s).sges();
    scatter_front front(from);
    std::uint32_t left = length;
    for (std::uint16_t i = 0; i < s.sge_count && i < max_sge_ && left > 0; ++i) {
        const slot_sge sge = sges[i];
        std::uint32_t in_element = std::min(left, sge.length);
        left -= in_element;
        remote_region r;
        if (in_element > 0 && (!find(sge.key, IBV_ACCESS_LOCAL_WRITE, sge.address, in_element, r) ||
                                      r.kind != region_kind::unmappable))
            return false;
        while (in_element > 0) {
            const std::uint32_t part = std::min(in_element, max_part);
            if (peer_->write(r.address, front.take(part)) != copy_result::done)
                return false;
            r.address += part;
            in_element -= part;
            if (in_element + left > 0 && (!peer_is_open() || !peer_->has(r)))
                return false;
        }
    }
    return left == 0;
}

// Publishes the message in that slot with one store. A lent receive changes its owner only at this moment. Returns
// false if the peer has reclaimed it since `seen` was read.
bool shm_ep::publish(receive_slot &s, std::uint64_t seen) const noexcept
{
    if (lent_)
        return s.done.compare_exchange_strong(seen, position_ + 1, std::memory_order_seq_cst);
    s.done.store(position_ + 1, std::memory_order_seq_cst);
    return true;
}

// Inlined into its main caller, because the response to a message waits for each call. Other functions may call it as
// well.
bool shm_ep::deliver(const message &m, std::span<const iovec> from)
{
    receive_slot &s = *slot_;
    const std::uint64_t seen = s.done.load(std::memory_order_acquire);
    if (lent_ && !has_receive()) // later reads of the slot belong to the receive of `seen`
        return false;
    std::uint8_t flags = m.flags;
    std::uint32_t bounced = bounced_;
    if ((flags & slot_write) == 0) {
        if (__atomic_load_n(&s.owner_only, __ATOMIC_RELAXED) != 0 || m.length > s.capacity)
            return false;
        if (m.length <= inline_size) {
            flags |= slot_inlined;
            if (!guarded([&] { gather(s.inlined.data(), from); }))
                return false;
        } else if (const auto space = m.length <= bcopy_threshold_ ? bounce_buffer_space(m.length) : std::nullopt) {
            flags |= slot_bounced;
            if (!guarded([&] { gather(bounce_buffer_ + *space % bounce_buffer_size, from); }))
                return false;
            s.bounced = *space;
            bounced = *space + whole_lines(m.length);
        } else if (lent_ || !place(s, m.length, from)) { // a lent receive belongs to the peer until it has a message
            return false;
        }
    }
    if (!cq_->reserve())
        return false;
    s.length = m.length;
    s.imm_data = m.imm_data;
    s.flags = flags;
    if (!publish(s, seen)) {
        cq_->release_entry();
        return false;
    }
    bounced_ = bounced;
    go_to(position_ + 1);
    sent_ = true;
    cq_->announce(cq_bit_, block_->watched.load(std::memory_order_seq_cst) != 0);
    cq_->wake((flags & slot_solicited) != 0);
    if (m.length > in_first_line && (flags & (slot_inlined | slot_bounced)) != 0)
        prefetch_space(m.length);
    return true;
}

} // namespace softrdma
