// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/assert.hpp"
#include "verbs/wr_op_info.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <sys/uio.h>

namespace softrdma
{

struct atomic_args {
    std::uint64_t compare_add;
    std::uint64_t swap;
};

struct flush_args {
    std::uint32_t length;
    std::uint8_t placement;
    std::uint8_t level;

    bool persists() const noexcept { return (placement & native::placement_persistent) != 0; }
    bool is_global() const noexcept { return (placement & native::placement_global) != 0; }
    bool is_valid() const noexcept { return (persists() || is_global()) && level <= native::level_region; }
};

// Access flags that a region needs for a FLUSH. If its owner has never used those of FLUSH, read access suffices.
inline int rights_to_flush(const flush_args &args, bool uses_flush) noexcept
{
    if (!uses_flush)
        return IBV_ACCESS_REMOTE_READ;
    return static_cast<int>((args.persists() ? native::access_flush_persistent : 0) |
                            (args.is_global() ? native::access_flush_global : 0));
}

// A window and its bind parameters. Keys instead of pointers, so that objects destroyed in the meantime are detected.
struct bind_args {
    std::uint32_t key;    // key of the window after the bind
    std::uint32_t region; // 0 for an unbind
    std::uint64_t addr;
    std::uint64_t length;
    unsigned access;
};

struct ud_args {
    ibv_ah *ah;
    std::uint32_t qpn;
    std::uint32_t qkey;
};

// State of a request in the send queue. A request that is executed while it is posted passes through its entry without
// a state. The order of the values matters, see wqe::is_started() and has_psn().
enum class wqe_state : std::uint32_t {
    posted,
    network_only,    // like posted; memory could not execute it, or the rules of injected faults have been applied
    rejected,        // must not be executed: completes with local_status, after the requests before it
    stalled,         // first in the queue, and waits for an event: its message found no receive in the peer's memory
    transmitting,    // has a PSN; part of it may have been handed to the path
    sent,            // handed to the path entirely
    sent_no_ack_req, // like sent; the response to a later request suffices
    returned,        // the receiver was not ready for it or an earlier one: will be sent again, with the same PSN
    aborted,         // like rejected, after it had a PSN
    succeeded,
    failed,
};

constexpr bool may_follow(wqe_state from, wqe_state to) noexcept
{
    using enum wqe_state;
    switch (to) {
    case posted: // the next attempt counts as a retry
        return from == stalled;
    case network_only:
        return from == posted || from == stalled;
    case rejected:
    case stalled:
        return from == posted;
    case transmitting:
        return from == posted || from == network_only || from == stalled || from == returned;
    case sent:
        return from == transmitting || from == sent_no_ack_req;
    case sent_no_ack_req:
    case aborted:
        return from == transmitting;
    case returned:
        return from == transmitting || from == sent || from == sent_no_ack_req;
    case succeeded: // never while part of it was not sent, or after an error
        return from == posted || from == stalled || from == sent || from == sent_no_ack_req;
    case failed:
        return from < succeeded;
    }
    return false;
}

// A work request in the send queue, built by ibv_post_send() or ibv_wr_*(), with copies of its lists and inline data.
struct wqe {
    wqe() noexcept {} // begin() sets the common members, queued() the members for the queue

    std::uint64_t wr_id;
    ibv_wr_opcode op;
    unsigned flags; // IBV_SEND_INLINE selects the member of `data`
    std::uint64_t remote_addr;
    std::uint32_t rkey;     // or the key of a window to invalidate
    std::uint32_t imm_data; // in network byte order, as in ibv_send_wr
    union {                 // selected by info().args
        atomic_args atomic;
        flush_args flush;
        ud_args ud; // datagram queue pairs only
    } args;
    std::uint32_t length; // bytes of data; UINT32_MAX if larger
    std::uint32_t sge_count;
    ibv_wc_status local_status; // error of a request that must not be executed
    // State of the network path for a queued request.
    std::uint32_t psn;
    std::uint32_t sent;     // bytes handed to the path
    std::uint32_t received; // bytes of a READ response
    std::uint32_t late_us;  // injected delay before the response is handled, or response_lost
    wqe_state state;
    union {
        std::array<ibv_sge, limits::max_sge> sges;
        alignas(word_size) std::array<std::byte, limits::max_inline> inlined;
        bind_args bind; // BIND_MW only
    } data;

    static constexpr std::uint32_t response_lost = UINT32_MAX;

    const wr_op_info &info() const noexcept { return info_of(op); }
    bool is_inline() const noexcept { return (flags & IBV_SEND_INLINE) != 0; }
    bool is_read() const noexcept { return op == IBV_WR_RDMA_READ; }
    // Valid only without inline data.
    std::span<const ibv_sge> sg_list() const noexcept
    {
        return {data.sges.data(), static_cast<std::size_t>(sge_count)};
    }
    iovec inline_data() const noexcept { return {const_cast<std::byte *>(data.inlined.data()), length}; }

    void begin(std::uint64_t id, unsigned send_flags, ibv_wr_opcode opcode) noexcept
    {
        wr_id = id;
        op = opcode;
        flags = send_flags & ~static_cast<unsigned>(IBV_SEND_INLINE); // set by set_inline()
        remote_addr = 0;
        rkey = imm_data = 0;
        sge_count = length = 0;
    }
    // Called when the request waits in the queue, so that the network path may execute it.
    void queued() noexcept
    {
        local_status = IBV_WC_SUCCESS;
        sent = received = late_us = 0;
        state = wqe_state::posted;
        if (!has_valid_length())
            reject(IBV_WC_LOC_LEN_ERR);
    }
    void enter(wqe_state next) noexcept; // the only function that changes the state of a queued request
    // Ends or prevents the execution of the request. It completes with that status, after the requests before it.
    void reject(ibv_wc_status status) noexcept
    {
        SOFTRDMA_ASSERT(status != IBV_WC_SUCCESS);
        if (!is_rejected())
            enter(has_psn() ? wqe_state::aborted : wqe_state::rejected);
        local_status = status;
    }
    bool is_rejected() const noexcept { return state == wqe_state::rejected || state == wqe_state::aborted; }
    bool has_psn() const noexcept { return state >= wqe_state::transmitting; }
    bool is_sent() const noexcept { return state == wqe_state::sent || state == wqe_state::sent_no_ack_req; }
    bool is_started() const noexcept { return state >= wqe_state::stalled; }
    bool has_valid_length() const noexcept { return length >= info().min_len && length <= info().max_len; }
    void set_remote(std::uint64_t address, std::uint32_t key) noexcept
    {
        remote_addr = address;
        rkey = key;
    }
    void set_ud(ibv_ah *ah, std::uint32_t qpn, std::uint32_t qkey) noexcept { args.ud = {ah, qpn, qkey}; }
    void set_bind(std::uint32_t key, const ibv_mw_bind_info &info) noexcept
    {
        data.bind = {key, info.mr == nullptr ? 0 : info.mr->lkey, info.addr, info.length, info.mw_access_flags};
    }
    // Setters for the parameters of the opcode. A later call overrides an earlier one.
    void set_sge(std::uint64_t addr, std::uint32_t len, std::uint32_t lkey) noexcept
    {
        data.sges[0].addr = addr;
        data.sges[0].length = len;
        data.sges[0].lkey = lkey;
        has_sges(1, len);
    }
    void set_sges(std::span<const ibv_sge> list) noexcept;
    void set_inline(std::span<const ibv_sge> list) noexcept;
    void set_inline(std::span<const ibv_data_buf> list) noexcept;
    // Copies only the members that the opcode uses: programs leave the others uninitialized.
    void set(const ibv_send_wr &wr) noexcept;

private:
    void has_sges(std::size_t count, std::uint64_t len) noexcept
    {
        sge_count = static_cast<std::uint32_t>(count);
        flags &= ~static_cast<unsigned>(IBV_SEND_INLINE);
        length = static_cast<std::uint32_t>(std::min<std::uint64_t>(len, UINT32_MAX));
    }
    void add_inline(const void *from, std::size_t len) noexcept;
};

std::uint64_t length_of(std::span<const ibv_sge> list) noexcept; // total bytes

// Limits of a queue pair; both posting interfaces reject requests that exceed them.
inline bool takes_sges(const ibv_qp_cap &cap, std::size_t count) noexcept
{
    return count <= cap.max_send_sge;
}
// ATOMIC WRITE carries its word inline regardless of the requested inline size.
inline bool takes_inline(const ibv_qp_cap &cap, ibv_wr_opcode opcode, std::uint64_t length) noexcept
{
    return !info_of(opcode).writes_local &&
           length <= (opcode == native::wr_atomic_write ? word_size : cap.max_inline_data);
}
// Only the variant of the key is chosen by the program; the index must match.
inline bool may_be_bound(const ibv_mw *mw, std::uint32_t key) noexcept
{
    return mw != nullptr && mw->type == IBV_MW_TYPE_2 && mw->handle == key_index(key);
}
int check_wr(const ibv_send_wr &wr, const ibv_qp_cap &cap) noexcept; // 0, EINVAL or EOPNOTSUPP

} // namespace softrdma
