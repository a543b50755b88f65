// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/shm_path.hpp"
#include "pmem/policy.hpp"

namespace softrdma
{

namespace
{

post_result result_of(copy_result result) noexcept
{
    switch (result) {
    case copy_result::done:
        return post_result::done;
    case copy_result::no_peer:
        return post_result::lost;
    default: // the network determines whether local or remote memory is missing
        return post_result::unsupported;
    }
}

} // namespace

std::unique_ptr<request_path> shm_ep::open_path(qp_block &own, ibv_pd *pd)
{
    return std::make_unique<shm_path>(std::static_pointer_cast<shm_ep>(shared_from_this()), own, pd);
}

bool shm_path::collect(const wqe &w, int access, std::span<const iovec> &segments)
{
    std::uint32_t count = 0;
    for (const ibv_sge &sge : w.sg_list()) {
        if (sge.length == 0)
            continue;
        std::byte *at = regions_.lookup(sge.lkey, domain_, access | access_local_read, sge.addr, sge.length);
        if (at == nullptr)
            return false;
        segments_[count++] = {at, sge.length};
    }
    if (w.is_inline() && w.length > 0) // inline data needs no region
        segments_[count++] = w.inline_data();
    segments = {segments_.data(), count};
    return true;
}

post_result shm_path::write(const wqe &w)
{
    std::span<const iovec> from;
    if (!collect(w, 0, from))
        return post_result::unsupported;
    return result_of(ep_->write(w.rkey, w.remote_addr, from, w.length));
}

post_result shm_path::read(const wqe &w)
{
    if (pmem::read_flushes() && !ep_->all_durable()) {
        if (!ep_->make_durable())
            return post_result::failed;
        if (!ep_->peer_is_open())
            return post_result::unsupported;
    }
    std::span<const iovec> to;
    if (peer_has_dirty_ || !collect(w, IBV_ACCESS_LOCAL_WRITE, to))
        return post_result::unsupported;
    return result_of(ep_->read(w.rkey, w.remote_addr, to, w.length));
}

// Delivers to a receive: a message with this data, or the notification of an executed WRITE.
post_result shm_path::deliver(const wqe &w, std::uint8_t kind, std::span<const iovec> from)
{
    const bool immediate = w.info().immediate;
    const bool solicited = (w.flags & IBV_SEND_SOLICITED) != 0;
    const message m{.length = w.length,
            .imm_data = w.imm_data,
            .flags = static_cast<std::uint8_t>(
                    kind | (immediate ? slot_immediate : 0) | (solicited ? slot_solicited : 0))};
    return ep_->deliver(m, from) ? post_result::done : post_result::unsupported;
}

// A request whose local memory cannot be read fails with a protection error, whether the peer has posted a receive or
// not.
[[gnu::cold]] post_result shm_path::without_receive(const wqe &w)
{
    std::span<const iovec> from;
    const bool waits =
            collect(w, 0, from) && !ep_->receives_are_lent(); // otherwise the peer checks the shared receive queue
    return waits ? post_result::pending : post_result::unsupported;
}

post_result shm_path::send(const wqe &w)
{
    std::span<const iovec> from;
    if (!ep_->has_receive())
        return without_receive(w);
    return collect(w, 0, from) ? deliver(w, 0, from) : post_result::unsupported;
}

post_result shm_path::write_and_notify(const wqe &w)
{
    if (!ep_->has_receive())
        return without_receive(w);
    const post_result written = write(w);
    return written == post_result::done ? deliver(w, slot_write, {}) : written;
}

post_result shm_path::write_word(const wqe &w)
{
    return ep_->stores_words(w.rkey, w.remote_addr) ? write(w) : post_result::unsupported;
}

// Requests are executed in order and stores are coherent, so only persistence needs work.
post_result shm_path::flush(const wqe &w)
{
    const flush_args &arguments = w.args.flush;
    if (!arguments.is_valid() || arguments.level != native::level_range)
        return post_result::unsupported;
    const int access = rights_to_flush(arguments, ep_->peer().uses_flush());
    const copy_result result = ep_->flush(w.rkey, access, w.remote_addr, arguments.length, arguments.persists());
    return result == copy_result::fault ? post_result::failed : result_of(result);
}

bool shm_path::request_receive_event() noexcept
{
    const read_section section(own_.epoch);
    if (!ep_->peer_is_open())
        return true;
    ep_->request_receive_event();
    return ep_->has_receive();
}

bool shm_path::is_unsupported(const wqe &w) const noexcept
{
    if (ep_->receives_are_lent() && w.info().takes_receive &&
            (!ep_->has_receive() || (w.info().message() && w.length > max_bounced)))
        return true;
    if (!needs_network_for_private_memory())
        return false;
    if (w.info().message())
        return w.length > max_bounced;
    // Outside a section: no memory is accessed, and the peer checks the request against its current regions.
    return (w.op == IBV_WR_RDMA_WRITE || w.op == IBV_WR_RDMA_READ) && ep_->is_private(w.rkey, w.remote_addr, w.length);
}

post_result shm_path::post(const wqe &w)
{
    if (!ep_->peer_is_open())
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
