// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/shm_ep.hpp"
#include "base/assert.hpp"
#include "pmem/policy.hpp"

#include <bit>
#include <cerrno>

namespace softrdma
{

namespace
{

constexpr std::uint32_t max_capacity = 1u << 16;
constexpr std::uint32_t max_sges = 64;

// After other errors, the network determines whether local or remote memory is missing.
post_result result_of(copy_result result) noexcept
{
    return result == copy_result::done      ? post_result::done
           : result == copy_result::no_peer ? post_result::lost
                                            : post_result::unsupported;
}

// Takes consecutive parts from the front of a scatter list.
class scatter_front
{
public:
    explicit scatter_front(std::span<const iovec> list) noexcept : list_(list) {}

    // Takes the first `bytes` bytes, at most the rest. The result is valid until the next call.
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

std::shared_ptr<shm_ep> shm_ep::open(const shm_address &h, const connection_ends &ends, std::string &reason)
{
    return open(peer_process::self(h, reason), h, ends, unique_fd(), reason);
}

std::shared_ptr<shm_ep> shm_ep::open(
        const shm_address &h, const connection_ends &ends, handover passed, std::string &reason)
{
    auto peer = peer_process::adopt(h, passed, reason);
    return open(std::move(peer), h, ends, std::move(passed.completion_fd), reason);
}

std::shared_ptr<shm_ep> shm_ep::open(std::shared_ptr<peer_process> peer, const shm_address &h,
        const connection_ends &ends, unique_fd completion_fd, std::string &reason)
{
    if (peer == nullptr)
        return nullptr;
    auto c = std::make_shared<shm_ep>();
    c->peer_ = std::move(peer);
    return c->attach(h, ends, std::move(completion_fd), reason) ? c : nullptr;
}

bool shm_ep::attach(const shm_address &h, const connection_ends &ends, unique_fd completion_fd, std::string &reason)
{
    reason = "the queue pair is not the one announced";
    constexpr std::uint64_t max_size = std::uint64_t{1} << 32;
    if (h.qp_size < page || h.qp_size > max_size)
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
    reason.clear();
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
            [](const void *peer) { return static_cast<const peer_process *>(peer)->gone(); }, peer_,
            peer_is_enrolled()};
}

std::shared_ptr<request_path> shm_ep::open_path(qp_block &own, ibv_pd *pd)
{
    region_in_use_ = &own.region_in_use;
    epoch_ = &own.epoch;
    local_domain_ = domain_of(pd);
    return std::static_pointer_cast<shm_ep>(shared_from_this());
}

file_mapping *shm_ep::lookup_mapping(remote_region r)
{
    recent_ = peer_->mapping(r);
    recent_slot_ = r.slot;
    recent_generation_ = r.generation;
    return recent_.get();
}

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

// Leaves the section, because a write-back may take long. The list of ranges keeps their files open.
bool shm_ep::make_durable()
{
    SOFTRDMA_ASSERT(epoch_ != nullptr); // the local queue pair has a path
    const section_pause outside(*epoch_);
    return unsynced_.make_durable([](const auto &file, std::uint64_t begin, std::uint64_t end) {
        const int error = file->write_back(begin, end - begin);
        return error == 0 || error == ENOMEM; // ENOMEM: unmapped by the program, see memory_region::sync_mapped()
    });
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

bool shm_ep::collect(const wqe &w, int access, std::span<const iovec> &segments)
{
    std::uint32_t count = 0;
    for (const ibv_sge &sge : w.sg_list()) {
        if (sge.length == 0)
            continue;
        std::byte *at = regions_.lookup(sge.lkey, local_domain_, access | access_local_read, sge.addr, sge.length);
        if (at == nullptr)
            return false;
        segments_[count++] = {at, sge.length};
    }
    if (w.is_inline() && w.length > 0) // inline data needs no region
        segments_[count++] = w.inline_data();
    segments = {segments_.data(), count};
    return true;
}

post_result shm_ep::write(const wqe &w)
{
    std::span<const iovec> from;
    if (!collect(w, 0, from))
        return post_result::unsupported;
    return result_of(write(w.rkey, w.remote_addr, from, w.length));
}

post_result shm_ep::read(const wqe &w)
{
    if (pmem::read_flushes() && !unsynced_.empty()) {
        if (!make_durable())
            return post_result::failed;
        if (!peer_is_open())
            return post_result::unsupported;
    }
    std::span<const iovec> to;
    if (peer_has_dirty_ || !collect(w, IBV_ACCESS_LOCAL_WRITE, to))
        return post_result::unsupported;
    return result_of(read(w.rkey, w.remote_addr, to, w.length));
}

// Delivers to a receive: a message with this data, or the notification of an executed WRITE.
post_result shm_ep::deliver(const wqe &w, std::uint8_t kind, std::span<const iovec> from)
{
    const bool immediate = w.info().immediate;
    const bool solicited = (w.flags & IBV_SEND_SOLICITED) != 0;
    const message m{.length = w.length,
            .imm_data = w.imm_data,
            .flags = static_cast<std::uint8_t>(
                    kind | (immediate ? slot_immediate : 0) | (solicited ? slot_solicited : 0))};
    return deliver(m, from) ? post_result::done : post_result::unsupported;
}

// Unreadable local memory is a protection error, whether the peer has posted a receive or not.
[[gnu::cold]] post_result shm_ep::without_receive(const wqe &w)
{
    std::span<const iovec> from;
    const bool waits = collect(w, 0, from) && !lent_; // otherwise the peer checks the shared receive queue
    return waits ? post_result::pending : post_result::unsupported;
}

post_result shm_ep::send(const wqe &w)
{
    std::span<const iovec> from;
    if (!has_receive())
        return without_receive(w);
    return collect(w, 0, from) ? deliver(w, 0, from) : post_result::unsupported;
}

post_result shm_ep::write_and_notify(const wqe &w)
{
    if (!has_receive())
        return without_receive(w);
    const post_result written = write(w);
    return written == post_result::done ? deliver(w, slot_write, {}) : written;
}

// Executes the WRITE of a word if it is one store, which the kernel does not guarantee of its copies.
post_result shm_ep::write_word(const wqe &w)
{
    remote_region r;
    const bool is_one_store = w.remote_addr % word_size == 0 &&
                              find(w.rkey, IBV_ACCESS_REMOTE_WRITE, w.remote_addr, word_size, r) &&
                              r.address % word_size == 0 && mapping(r) != nullptr;
    return is_one_store ? write(w) : post_result::unsupported;
}

// Requests are executed in order and stores are coherent, so only persistence needs work.
post_result shm_ep::flush(const wqe &w)
{
    const flush_args &arguments = w.args.flush;
    if (!arguments.is_valid() || arguments.level != native::level_range)
        return post_result::unsupported;
    const int access = rights_to_flush(arguments, peer_->uses_flush());
    remote_region r;
    if (!grants(access) || !find(w.rkey, access, w.remote_addr, arguments.length, r))
        return post_result::unsupported;
    if (!arguments.persists() || r.kind == region_kind::unmappable || r.kind == region_kind::direct_access)
        return post_result::done;
    if (mapping(r) == nullptr)
        return post_result::unsupported;
    const std::shared_ptr<file_mapping> file = recent_;
    const section_pause outside(*epoch_); // see make_durable()
    const int error = file->write_back(r.address - r.region_address, arguments.length);
    return error == 0 ? post_result::done : post_result::failed;
}

bool shm_ep::is_unsupported(const wqe &w) const noexcept
{
    if (lent_ && w.info().takes_receive && (!has_receive() || (w.info().message() && w.length > max_bounced)))
        return true;
    if (!needs_network_for_private_memory())
        return false;
    if (w.info().message())
        return w.length > max_bounced;
    // Outside a section: no memory is accessed, and the peer checks the request against its current regions.
    remote_region r;
    return (w.op == IBV_WR_RDMA_WRITE || w.op == IBV_WR_RDMA_READ) && find(w.rkey, 0, w.remote_addr, w.length, r) &&
           r.kind == region_kind::unmappable;
}

post_result shm_ep::post(const wqe &w)
{
    if (!peer_is_open())
        return post_result::unsupported;
    switch (static_cast<int>(w.op)) { // includes opcodes that the headers lack
    case IBV_WR_RDMA_WRITE:
        return write(w);
    case IBV_WR_RDMA_READ:
        return read(w);
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return send(w);
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return write_and_notify(w);
    case native::wr_atomic_write:
        return write_word(w);
    case native::wr_flush:
        return flush(w);
    default:
        return post_result::unsupported;
    }
}

} // namespace softrdma
