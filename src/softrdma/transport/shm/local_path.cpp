// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/local_path.hpp"
#include "pmem/policy.hpp"

#include <algorithm>

namespace softrdma
{

namespace
{

execution execution_of(local::copy_result result) noexcept
{
    switch (result) {
    case local::copy_result::done:
        return execution::done;
    case local::copy_result::no_way:
        return execution::by_peer;
    case local::copy_result::no_peer:
        return execution::peer_lost;
    default:
        return execution::failed;
    }
}

} // namespace

bool local_path::collect(const ibv_send_wr &wr, int access, std::span<const iovec> &pieces)
{
    const bool in_place = (wr.send_flags & IBV_SEND_INLINE) != 0; // it needs no region
    std::uint32_t count = 0;
    for (const ibv_sge &sge : pieces_of(wr)) {
        if (sge.length == 0)
            continue;
        std::byte *at = in_place ? reinterpret_cast<std::byte *>(sge.addr)
                                 : regions_.look_up(sge.lkey, pd_, access, sge.addr, sge.length);
        if (at == nullptr)
            return false;
        pieces_[count++] = {at, sge.length};
    }
    pieces = {pieces_.data(), count};
    return true;
}

// What write() has just stored into a file.
[[gnu::cold]] void local_path::note_first_store(std::uint64_t begin, std::uint32_t bytes)
{
    dirty_.push_back({channel_->recent_mapping(), begin, begin + bytes});
}

void local_path::note_store(const local::remote_region &r, std::uint32_t bytes)
{
    if (r.kind == local::region_kind::unmappable)
        return;
    local::file_mapping *file = channel_->recent_mapping().get();
    const std::uint64_t begin = r.address - r.region_address;
    if (r.kind == local::region_kind::direct_access) {
        file->write_back(begin, bytes);
        return;
    }
    channel_->peer().mark_unsynced(r);
    for (dirty_range &range : dirty_) {
        if (range.file.get() == file) {
            range.begin = std::min(range.begin, begin);
            range.end = std::max(range.end, begin + bytes);
            return;
        }
    }
    note_first_store(begin, bytes);
}

// Takes as long as the file system likes, and holds the files itself: the peer does not wait for it.
bool local_path::make_durable()
{
    const local::epoch_pause outside(own_.epoch);
    const bool good = std::all_of(dirty_.begin(), dirty_.end(),
            [](const dirty_range &range) { return range.file->write_back(range.begin, range.end - range.begin) == 0; });
    if (good)
        dirty_.clear();
    return good;
}

execution local_path::write(const ibv_send_wr &wr, std::uint32_t length)
{
    local::remote_region region;
    std::span<const iovec> from;
    if ((channel_->peer_access() & IBV_ACCESS_REMOTE_WRITE) == 0 || !collect(wr, 0, from))
        return execution::by_peer;
    if (length == 0)
        return execution::done;
    if (!channel_->find(wr.wr.rdma.rkey, IBV_ACCESS_REMOTE_WRITE, wr.wr.rdma.remote_addr, length, region))
        return execution::by_peer;
    const execution result = execution_of(channel_->write(region, from, length));
    if (result == execution::done)
        note_store(region, length);
    return result;
}

execution local_path::read(const ibv_send_wr &wr, std::uint32_t length)
{
    if (pmem::read_flushes() && !dirty_.empty()) {
        if (!make_durable())
            return execution::not_durable;
        if (!channel_->peer_is_open())
            return execution::by_peer;
    }
    local::remote_region region;
    std::span<const iovec> to;
    if (peer_has_dirty_ || (channel_->peer_access() & IBV_ACCESS_REMOTE_READ) == 0 ||
            !collect(wr, IBV_ACCESS_LOCAL_WRITE, to))
        return execution::by_peer;
    if (length == 0)
        return execution::done;
    if (!channel_->find(wr.wr.rdma.rkey, IBV_ACCESS_REMOTE_READ, wr.wr.rdma.remote_addr, length, region))
        return execution::by_peer;
    return execution_of(channel_->read(region, to, length));
}

// With a receive: a message of what is in these pieces, or the notice of a WRITE that has been executed.
execution local_path::deliver(
        const ibv_send_wr &wr, std::uint32_t length, std::uint8_t kind, std::span<const iovec> from)
{
    const bool immediate = wr.opcode != IBV_WR_SEND;
    const bool solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
    const local::message m{.length = length,
            .imm_data = immediate ? wr.imm_data : 0,
            .flags = static_cast<std::uint8_t>(
                    kind | (immediate ? local::slot_immediate : 0) | (solicited ? local::slot_solicited : 0))};
    return channel_->deliver(m, from) ? execution::done : execution::by_peer;
}

// A request whose own memory cannot be read ends in a protection error whether the peer has posted a receive or not.
[[gnu::cold]] execution local_path::without_receive(const ibv_send_wr &wr)
{
    std::span<const iovec> from;
    return collect(wr, 0, from) ? execution::no_receive : execution::by_peer;
}

execution local_path::send(const ibv_send_wr &wr, std::uint32_t length)
{
    std::span<const iovec> from;
    if (!channel_->has_receive())
        return without_receive(wr);
    return collect(wr, 0, from) ? deliver(wr, length, 0, from) : execution::by_peer;
}

execution local_path::write_and_notify(const ibv_send_wr &wr, std::uint32_t length)
{
    if (!channel_->has_receive())
        return without_receive(wr);
    const execution written = write(wr, length);
    return written == execution::done ? deliver(wr, length, local::slot_write, {}) : written;
}

execution local_path::write_word(const ibv_send_wr &wr)
{
    local::remote_region region;
    const std::uint64_t to = wr.wr.rdma.remote_addr;
    const bool found = to % word_size == 0 &&
                       channel_->find(wr.wr.rdma.rkey, IBV_ACCESS_REMOTE_WRITE, to, word_size, region) &&
                       region.address % word_size == 0;
    // The kernel does not promise that its copy of a word is one store.
    return found && channel_->mapping(region) != nullptr ? write(wr, word_size) : execution::by_peer;
}

// Requests are executed in order and stores are coherent: only persistence takes work, and not of cache lines, which
// are written back as they are stored.
execution local_path::flush(const ibv_send_wr &wr)
{
    const auto arguments = native::flush_of(wr.wr.atomic.compare_add, wr.wr.atomic.swap);
    const bool persistent = (arguments.placement & native::placement_persistent) != 0;
    const bool global = (arguments.placement & native::placement_global) != 0;
    if ((!persistent && !global) || arguments.level != native::level_range)
        return execution::by_peer;
    const int access = rights_to_flush(global, persistent, channel_->peer().facts());
    local::remote_region region;
    if ((channel_->peer_access() & access) != access ||
            !channel_->find(wr.wr.atomic.rkey, access, wr.wr.atomic.remote_addr, arguments.length, region))
        return execution::by_peer;
    if (!persistent || region.kind == local::region_kind::unmappable ||
            region.kind == local::region_kind::direct_access)
        return execution::done;
    if (channel_->mapping(region) == nullptr)
        return execution::by_peer;
    const std::shared_ptr<local::file_mapping> file = channel_->recent_mapping();
    const local::epoch_pause outside(own_.epoch); // see make_durable()
    const int error = file->write_back(region.address - region.region_address, arguments.length);
    return error == 0 ? execution::done : execution::not_durable;
}

bool local_path::ask_for_receive() noexcept
{
    const local::epoch_section section(own_.epoch);
    if (!channel_->peer_is_open())
        return true;
    channel_->ask_for_receive();
    return channel_->has_receive();
}

bool local_path::is_out_of_reach(const ibv_send_wr &wr, std::uint32_t length) const noexcept
{
    if (!leaves_private_memory())
        return false;
    if (kind_of(wr.opcode).message)
        return length > local::carried_size;
    // Outside an epoch: nothing is touched, and the peer judges the request by what is registered then.
    local::remote_region region;
    return (wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_RDMA_READ) &&
           channel_->find(wr.wr.rdma.rkey, 0, wr.wr.rdma.remote_addr, length, region) &&
           region.kind == local::region_kind::unmappable;
}

execution local_path::execute(const ibv_send_wr &wr, std::uint32_t length)
{
    if (!channel_->peer_is_open())
        return execution::by_peer;
    switch (static_cast<int>(wr.opcode)) { // not all of which the headers name
    case IBV_WR_RDMA_WRITE:
        return write(wr, length);
    case IBV_WR_RDMA_READ:
        return read(wr, length);
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return send(wr, length);
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return write_and_notify(wr, length);
    case native::wr_atomic_write:
        return write_word(wr);
    case native::wr_flush:
        return flush(wr);
    default:
        return execution::by_peer;
    }
}

} // namespace softrdma
