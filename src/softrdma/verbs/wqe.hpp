// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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

// The rights a region must have for a FLUSH, if its owner `knows_flush` or not. Programs older than FLUSH cannot grant
// it, yet their peers may use it: as long as the program has not named FLUSH once, in a region's rights or a queue
// pair's operations, what may be read may be flushed as well.
inline int rights_to_flush(const flush_args &args, bool knows_flush) noexcept
{
    if (!knows_flush)
        return IBV_ACCESS_REMOTE_READ;
    return static_cast<int>((args.persists() ? native::access_flush_persistent : 0) |
                            (args.is_global() ? native::access_flush_global : 0));
}

// A window and what it is to be bound to: keys, so that what is gone meanwhile is found out.
struct bind_args {
    std::uint32_t key;    // of the window from then on
    std::uint32_t region; // 0: none
    std::uint64_t addr;
    std::uint64_t length;
    unsigned access;
};

struct ud_args {
    ibv_ah *ah;
    std::uint32_t qpn;
    std::uint32_t qkey;
};

// A work request in the send queue, made of an ibv_send_wr or by a call of ibv_wr_*. The lists and the inline data of
// the program are copied into it.
struct wqe {
    wqe() noexcept {} // begin() sets what a request has, queued() what it needs in the queue

    std::uint64_t wr_id;
    ibv_wr_opcode op;
    unsigned flags; // IBV_SEND_INLINE says which member of `data` there is
    std::uint64_t remote_addr;
    std::uint32_t rkey;     // or that of a window to be invalidated
    std::uint32_t imm_data; // in network byte order, as programs give it
    union {                 // as info().args says
        atomic_args atomic;
        flush_args flush;
        ud_args ud; // of a datagram queue pair
    } args;
    std::uint32_t length; // of the data; UINT32_MAX: more than can be counted
    std::uint32_t sge_count;
    // Of one that is queued: what it ends with if it must not be executed, else IBV_WC_SUCCESS.
    ibv_wc_status local_status;
    // Of one that is queued: what the network path has done with it.
    std::uint32_t psn;
    std::uint32_t sent;     // bytes handed to the path
    std::uint32_t received; // of a READ
    std::uint32_t late_us;  // how late the answer is handled
    bool numbered;          // psn is valid
    bool no_ack_req;        // a later one's answer will do
    bool judged;            // whether a fault is to be injected has been decided
    bool answer_lost;       // injected, as is `late_us`
    union {
        std::array<ibv_sge, limits::max_sge> sges;
        alignas(word_size) std::array<std::byte, limits::max_inline> inlined;
        bind_args bind; // of BIND_MW
    } data;

    const wr_op_info &info() const noexcept { return info_of(op); }
    bool is_inline() const noexcept { return (flags & IBV_SEND_INLINE) != 0; }
    bool is_read() const noexcept { return op == IBV_WR_RDMA_READ; }
    // Without data that is inline.
    std::span<const ibv_sge> sg_list() const noexcept
    {
        return {data.sges.data(), static_cast<std::size_t>(sge_count)};
    }
    iovec inline_data() const noexcept { return {const_cast<std::byte *>(data.inlined.data()), length}; }

    void begin(std::uint64_t id, unsigned send_flags, ibv_wr_opcode opcode) noexcept
    {
        wr_id = id;
        op = opcode;
        flags = send_flags & ~static_cast<unsigned>(IBV_SEND_INLINE); // set_inline() says so
        remote_addr = 0;
        rkey = imm_data = 0;
        sge_count = length = 0;
    }
    // It waits in the queue, and may be executed by the network path.
    void queued() noexcept
    {
        local_status = has_valid_length() ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
        sent = received = late_us = 0;
        numbered = no_ack_req = judged = answer_lost = false;
    }
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
    // What may be set is what the functions below say. The latest applies.
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
    // What an opcode does not use, programs leave uninitialised in theirs.
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

// What a queue pair takes; all that is refused when it is posted, for both ways of posting.
inline bool takes_sges(const ibv_qp_cap &cap, std::size_t count) noexcept
{
    return count <= cap.max_send_sge;
}
// ATOMIC WRITE carries its word whatever room for inline data was asked for.
inline bool takes_inline(const ibv_qp_cap &cap, ibv_wr_opcode opcode, std::uint64_t length) noexcept
{
    return !info_of(opcode).writes_local &&
           length <= (opcode == native::wr_atomic_write ? word_size : cap.max_inline_data);
}
// Of a key only the variant is the program's.
inline bool may_be_bound(const ibv_mw *mw, std::uint32_t key) noexcept
{
    return mw != nullptr && mw->type == IBV_MW_TYPE_2 && mw->handle == local::key_index(key);
}
// 0, EINVAL or EOPNOTSUPP.
int check_wr(const ibv_send_wr &wr, const ibv_qp_cap &cap) noexcept;

} // namespace softrdma
