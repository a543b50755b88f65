// SPDX-License-Identifier: BSD-3-Clause
#include <type_traits>

#include "boundary.hpp"
#include "conn.hpp"
#include "log.hpp"
#include "rdma/work_request.hpp"

// Data path. Each function checks its arguments and calls the provider directly. Rare cases, operations without a
// region and flags that are not plain(), are posted out of line.

using namespace rpma;

namespace
{

// Internal functions get the flags minus one: the two frequent values then are the send flags 0 and IBV_SEND_SIGNALED.
// All other values (0, RPMA_F_MORE and undefined bits) fail the one test in plain().
static_assert(RPMA_F_COMPLETION_ON_ERROR - 1 == 0 && RPMA_F_COMPLETION_ALWAYS - 1 == IBV_SEND_SIGNALED);
[[gnu::always_inline]] inline unsigned minus_one(int flags)
{
    return static_cast<unsigned>(flags) - 1U;
}
constexpr bool plain(unsigned flags_minus_one)
{
    return (flags_minus_one & ~static_cast<unsigned>(IBV_SEND_SIGNALED)) == 0;
}

template<class Queue>
struct target {
    Queue *queue;
    unsigned send_flags;
};
struct targets {
    target<ibv_qp> queue() const { return {qp, send_flags}; }
    target<ibv_qp_ex> native_flush() const { return {flush, send_flags}; }
    target<ibv_qp_ex> native_atomic_write() const { return {atomic_write, send_flags}; }

    ibv_qp *qp;
    ibv_qp_ex *flush;
    ibv_qp_ex *atomic_write;
    unsigned send_flags;
};

// Cold path, out of line: the callers need no register for its result.
[[gnu::cold, gnu::noinline]] int invalid()
{
    return RPMA_E_INVAL;
}

constexpr bool valid(unsigned flags_minus_one)
{
    return flags_minus_one + 1U != 0;
}

targets slow_targets(rpma_conn *conn, unsigned flags_minus_one)
{
    const unsigned flags = flags_minus_one + 1U;
    const unsigned send_flags = rdma::signalled(flags);
    rdma::batch *const batch = (flags & RPMA_F_MORE) != 0 ? conn->queueing_batch() : nullptr;
    if (batch == nullptr)
        return {conn->qp(), conn->native_flush(), conn->native_atomic_write(), send_flags};
    return {batch->qp(), batch->flush(), batch->atomic_write(), send_flags | rdma::queue_flag};
}

template<ibv_wr_opcode Opcode>
[[gnu::always_inline]] inline void count(rpma_conn *conn, std::size_t len)
{
    counters &counted = conn->counters();
    constexpr bool reads = Opcode == IBV_WR_RDMA_READ;
    constexpr bool sends = Opcode == IBV_WR_SEND || Opcode == IBV_WR_SEND_WITH_IMM;
    (reads ? counted.reads : sends ? counted.sends : counted.writes).add(1);
    (reads ? counted.read_bytes : sends ? counted.send_bytes : counted.write_bytes).add(len);
}

bool in_range(const rpma_mr_local *mr, std::size_t offset, std::size_t len)
{
    return mr->can_transfer(offset, len);
}
bool in_range(const rpma_mr_remote *mr, std::size_t offset, std::size_t len)
{
    return mr->contains(offset, len);
}

// The opcode determines which of dst and src is local. The parameter order of the C functions keeps them in registers.
template<ibv_wr_opcode Opcode, class Dst, class Src>
[[gnu::always_inline]] inline int post_transfer(target<ibv_qp> to, const Dst *dst, std::size_t dst_offset,
        const Src *src, std::size_t src_offset, std::size_t len, const void *op_context, std::uint32_t imm)
{
    const auto post = [&](const rpma_mr_local *local, std::size_t local_offset, const rpma_mr_remote *remote,
            std::size_t remote_offset) __attribute__((always_inline))
    {
        ibv_sge sge = local->sge(local_offset, len);
        return rdma::post_rdma(
                to.queue, Opcode, &sge, remote->address(remote_offset), remote->rkey(), to.send_flags, op_context, imm);
    };
    if constexpr (std::is_same_v<Dst, rpma_mr_local>)
        return post(dst, dst_offset, src, src_offset);
    else
        return post(src, src_offset, dst, dst_offset);
}

// A transfer of 0 bytes has either both regions or none.
template<ibv_wr_opcode Opcode>
[[gnu::cold, gnu::noinline]] int transfer_empty(rpma_conn *conn, const void *dst, std::size_t dst_offset,
        const void *src, std::size_t src_offset, std::size_t len, unsigned flags_minus_one, const void *op_context,
        std::uint32_t imm)
{
    if (conn == nullptr || dst != nullptr || src != nullptr || dst_offset != 0 || src_offset != 0 || len != 0 ||
            !valid(flags_minus_one))
        return RPMA_E_INVAL;
    count<Opcode>(conn, 0);
    const targets to = slow_targets(conn, flags_minus_one);
    return rdma::post_rdma(to.qp, Opcode, nullptr, 0, 0, to.send_flags, op_context, imm);
}

template<ibv_wr_opcode Opcode, class Dst, class Src>
[[gnu::cold, gnu::noinline]] int transfer_slow(rpma_conn *conn, const Dst *dst, std::size_t dst_offset, const Src *src,
        std::size_t src_offset, std::size_t len, unsigned flags_minus_one, const void *op_context, std::uint32_t imm)
{
    if (!valid(flags_minus_one))
        return RPMA_E_INVAL;
    count<Opcode>(conn, len);
    return post_transfer<Opcode>(
            slow_targets(conn, flags_minus_one).queue(), dst, dst_offset, src, src_offset, len, op_context, imm);
}

// Read or write between equally long parts of a local and a remote region.
template<ibv_wr_opcode Opcode, class Dst, class Src>
[[gnu::always_inline]] inline int transfer(rpma_conn *conn, const Dst *dst, std::size_t dst_offset, const Src *src,
        std::size_t src_offset, std::size_t len, int flags, const void *op_context, std::uint32_t imm = 0)
{
    const unsigned send_flags = minus_one(flags);
    if (!both_non_null(conn, dst) || src == nullptr) [[unlikely]]
        return transfer_empty<Opcode>(conn, dst, dst_offset, src, src_offset, len, send_flags, op_context, imm);
    if (!in_range(dst, dst_offset, len)) [[unlikely]]
        return invalid();
    if (!in_range(src, src_offset, len)) [[unlikely]]
        return invalid();
    if (!plain(send_flags)) [[unlikely]]
        return transfer_slow<Opcode>(conn, dst, dst_offset, src, src_offset, len, send_flags, op_context, imm);
    count<Opcode>(conn, len);
    return post_transfer<Opcode>({conn->qp(), send_flags}, dst, dst_offset, src, src_offset, len, op_context, imm);
}

template<ibv_wr_opcode Opcode>
[[gnu::always_inline]] inline int post_message(target<ibv_qp> to, const rpma_mr_local *src, std::size_t offset,
        std::size_t len, const void *op_context, std::uint32_t imm)
{
    ibv_sge sge = src->sge(offset, len);
    return rdma::post_send(to.queue, Opcode, &sge, to.send_flags, op_context, imm);
}

template<ibv_wr_opcode Opcode>
[[gnu::cold, gnu::noinline]] int send_empty(rpma_conn *conn, const rpma_mr_local *src, std::size_t offset,
        std::size_t len, unsigned flags_minus_one, const void *op_context, std::uint32_t imm)
{
    if (conn == nullptr || src != nullptr || offset != 0 || len != 0 || !valid(flags_minus_one))
        return RPMA_E_INVAL;
    count<Opcode>(conn, 0);
    const targets to = slow_targets(conn, flags_minus_one);
    return rdma::post_send(to.qp, Opcode, nullptr, to.send_flags, op_context, imm);
}

template<ibv_wr_opcode Opcode>
[[gnu::cold, gnu::noinline]] int send_slow(rpma_conn *conn, const rpma_mr_local *src, std::size_t offset,
        std::size_t len, unsigned flags_minus_one, const void *op_context, std::uint32_t imm)
{
    if (!valid(flags_minus_one))
        return RPMA_E_INVAL;
    count<Opcode>(conn, len);
    return post_message<Opcode>(slow_targets(conn, flags_minus_one).queue(), src, offset, len, op_context, imm);
}

template<ibv_wr_opcode Opcode>
[[gnu::always_inline]] inline int send(rpma_conn *conn, const rpma_mr_local *src, std::size_t offset, std::size_t len,
        int flags, const void *op_context, std::uint32_t imm = 0)
{
    const unsigned send_flags = minus_one(flags);
    if (!both_non_null(conn, src)) [[unlikely]]
        return send_empty<Opcode>(conn, src, offset, len, send_flags, op_context, imm);
    if (!src->can_transfer(offset, len)) [[unlikely]]
        return invalid();
    if (!plain(send_flags)) [[unlikely]]
        return send_slow<Opcode>(conn, src, offset, len, send_flags, op_context, imm);
    count<Opcode>(conn, len);
    return post_message<Opcode>({conn->qp(), send_flags}, src, offset, len, op_context, imm);
}

// Maps a flush type to the placement of a native flush and to RPMA_MR_USAGE_FLUSH_TYPE_*, without branches.
static_assert(RPMA_FLUSH_TYPE_PERSISTENT == 0 && RPMA_FLUSH_TYPE_VISIBILITY == 1);
static_assert(rdma::placement_flush_persistent == 2 && rdma::placement_flush_global == 1);
static_assert(RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT == 2 << 4 && RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY == 1 << 4);
constexpr unsigned placement_of(unsigned type)
{
    return 2 - type;
}
constexpr unsigned usage_of(unsigned type)
{
    return placement_of(type) << 4;
}
constexpr bool is_known(unsigned type)
{
    return type <= RPMA_FLUSH_TYPE_VISIBILITY;
}

// Loads the queue pair last, so that the connection needs no register afterwards.
template<class Find>
[[gnu::always_inline]] inline int emulate_flush(
        Find find_target, const rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset, const void *op_context)
{
    const std::uint64_t remote_addr = dst->flush_read_address(offset);
    ibv_sge read_to = conn->flush().read_target(dst->flush_read_length());
    const target<ibv_qp> to = find_target();
    return rdma::post_rdma(to.queue, IBV_WR_RDMA_READ, &read_to, remote_addr, dst->rkey(), to.send_flags, op_context);
}

template<std::uint8_t Level, class Find>
[[gnu::always_inline]] inline int flush_natively(Find find_target, const rpma_mr_remote *dst, std::size_t offset,
        std::size_t len, unsigned type, const void *op_context)
{
    const auto placement = static_cast<std::uint8_t>(placement_of(dst->native_flush_type(type)));
    const std::uint64_t remote_addr = dst->address(offset);
    const target<ibv_qp_ex> to = find_target();
    return rdma::post_native_flush(
            to.queue, remote_addr, dst->rkey(), len, placement, Level, to.send_flags, op_context);
}

// Both flush methods are out of line, because each needs different registers. They have the parameters of rpma_flush.
[[gnu::noinline]] int post_emulated_flush(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset, std::size_t,
        unsigned, unsigned send_flags, const void *op_context)
{
    return emulate_flush([&] { return target<ibv_qp>{conn->qp(), send_flags}; }, conn, dst, offset, op_context);
}

[[gnu::noinline]] int post_native_flush(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset, std::size_t len,
        unsigned type, unsigned send_flags, const void *op_context)
{
    return flush_natively<rdma::flush_level_range>(
            [&] {
                return target<ibv_qp_ex>{conn->native_flush(), send_flags};
            },
            dst, offset, len, type, op_context);
}

[[gnu::cold, gnu::noinline]] int flush_unsupported(const rpma_conn *conn, unsigned type)
{
    if ((conn->flush_types() & usage_of(type)) == 0)
        RPMA_LOG_ERROR("persistent flush rejected: the applied remote peer configuration lacks direct write to PMem "
                       "(apply one with it, or flush to visibility)\n");
    else
        RPMA_LOG_ERROR("flush rejected: remote region not registered for a flush to %s\n",
                type == RPMA_FLUSH_TYPE_PERSISTENT ? "persistence" : "visibility");
    return RPMA_E_NOSUPP;
}

[[gnu::cold, gnu::noinline]] int flush_slow(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset,
        std::size_t len, unsigned type, unsigned flags_minus_one, const void *op_context)
{
    if (!dst->contains(offset, len))
        return RPMA_E_INVAL;
    conn->counters().flushes.add(1);
    const targets to = slow_targets(conn, flags_minus_one);
    if (to.flush == nullptr)
        return emulate_flush([&] { return to.queue(); }, conn, dst, offset, op_context);
    // A range that exceeds the length field on the wire is flushed with its whole region.
    return dst->can_flush_range(offset, len)
                   ? flush_natively<rdma::flush_level_range>(
                             [&] { return to.native_flush(); }, dst, offset, len, type, op_context)
                   : flush_natively<rdma::flush_level_mr>(
                             [&] { return to.native_flush(); }, dst, offset, len, type, op_context);
}

[[gnu::always_inline]] inline int emulate_atomic_write(
        target<ibv_qp> to, const rpma_mr_remote *dst, std::size_t offset, const char *src, const void *op_context)
{
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(src), RPMA_ATOMIC_WRITE_ALIGNMENT, 0};
    return rdma::post_rdma(to.queue, IBV_WR_RDMA_WRITE, &sge, dst->address(offset), dst->rkey(),
            to.send_flags | IBV_SEND_INLINE | IBV_SEND_FENCE, op_context);
}

[[gnu::noinline]] int post_emulated_atomic_write(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset,
        const char *src, unsigned send_flags, const void *op_context)
{
    return emulate_atomic_write({conn->qp(), send_flags}, dst, offset, src, op_context);
}

[[gnu::always_inline]] inline int write_atomically(target<ibv_qp_ex> to, const rpma_conn *conn,
        const rpma_mr_remote *dst, std::size_t offset, const char *src, const void *op_context)
{
    return rdma::post_native_atomic_write(to.queue, dst->address(offset), dst->rkey(), src,
            to.send_flags | conn->native_atomic_write_flags(), op_context);
}

[[gnu::noinline]] int post_native_atomic_write(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset,
        const char *src, unsigned send_flags, const void *op_context)
{
    return write_atomically({conn->native_atomic_write(), send_flags}, conn, dst, offset, src, op_context);
}

[[gnu::cold, gnu::noinline]] int write_atomically_slow(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset,
        const char *src, unsigned flags_minus_one, const void *op_context)
{
    if (!valid(flags_minus_one) || !dst->contains(offset, RPMA_ATOMIC_WRITE_ALIGNMENT))
        return RPMA_E_INVAL;
    dst->warn_if_unaligned();
    conn->counters().atomic_writes.add(1);
    const targets to = slow_targets(conn, flags_minus_one);
    return to.atomic_write == nullptr ? emulate_atomic_write(to.queue(), dst, offset, src, op_context)
                                      : write_atomically(to.native_atomic_write(), conn, dst, offset, src, op_context);
}

[[gnu::cold, gnu::noinline]] int receive_empty(
        rpma_conn *conn, const rpma_mr_local *dst, std::size_t offset, std::size_t len, const void *op_context)
{
    if (conn == nullptr || dst != nullptr || offset != 0 || len != 0)
        return RPMA_E_INVAL;
    conn->counters().receives.add(1);
    return rdma::post_receive(conn->qp(), nullptr, op_context);
}

} // namespace

extern "C" {

int rpma_read(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t dst_offset, const struct rpma_mr_remote *src,
        size_t src_offset, size_t len, int flags, const void *op_context)
{
    return transfer<IBV_WR_RDMA_READ>(conn, dst, dst_offset, src, src_offset, len, flags, op_context);
}

int rpma_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const struct rpma_mr_local *src,
        size_t src_offset, size_t len, int flags, const void *op_context)
{
    return transfer<IBV_WR_RDMA_WRITE>(conn, dst, dst_offset, src, src_offset, len, flags, op_context);
}

int rpma_write_with_imm(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset,
        const struct rpma_mr_local *src, size_t src_offset, size_t len, int flags, uint32_t imm, const void *op_context)
{
    return transfer<IBV_WR_RDMA_WRITE_WITH_IMM>(conn, dst, dst_offset, src, src_offset, len, flags, op_context, imm);
}

int rpma_atomic_write(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, const char src[8],
        int flags, const void *op_context)
{
    const unsigned send_flags = minus_one(flags);
    if (!both_non_null(conn, dst) || src == nullptr || dst_offset % RPMA_ATOMIC_WRITE_ALIGNMENT != 0) [[unlikely]]
        return invalid();
    if (!plain(send_flags) || !dst->contains_aligned_word(dst_offset)) [[unlikely]]
        return write_atomically_slow(conn, dst, dst_offset, src, send_flags, op_context);
    conn->counters().atomic_writes.add(1);
    if (!conn->has_native_atomic_write())
        return post_emulated_atomic_write(conn, dst, dst_offset, src, send_flags, op_context);
    return post_native_atomic_write(conn, dst, dst_offset, src, send_flags, op_context);
}

int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
        enum rpma_flush_type type, int flags, const void *op_context)
{
    const auto kind = static_cast<unsigned>(type);
    const unsigned send_flags = minus_one(flags);
    if (!both_non_null(conn, dst) || !is_known(kind) || !valid(send_flags)) [[unlikely]]
        return invalid();
    if ((conn->flush_types() & dst->usage() & usage_of(kind)) == 0) [[unlikely]]
        return flush_unsupported(conn, kind);
    if (!plain(send_flags) || !dst->can_flush_range(dst_offset, len)) [[unlikely]]
        return flush_slow(conn, dst, dst_offset, len, kind, send_flags, op_context);
    conn->counters().flushes.add(1);
    if (conn->flush().native() != nullptr)
        return post_native_flush(conn, dst, dst_offset, len, kind, send_flags, op_context);
    return post_emulated_flush(conn, dst, dst_offset, len, kind, send_flags, op_context);
}

int rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
        const void *op_context)
{
    return send<IBV_WR_SEND>(conn, src, offset, len, flags, op_context);
}

int rpma_send_with_imm(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
        uint32_t imm, const void *op_context)
{
    return send<IBV_WR_SEND_WITH_IMM>(conn, src, offset, len, flags, op_context, imm);
}

int rpma_recv(struct rpma_conn *conn, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context)
{
    if (!both_non_null(conn, dst)) [[unlikely]]
        return receive_empty(conn, dst, offset, len, op_context);
    if (!dst->can_transfer(offset, len)) [[unlikely]]
        return invalid();
    conn->counters().receives.add(1);
    ibv_sge sge = dst->sge(offset, len);
    return rdma::post_receive(conn->qp(), &sge, op_context);
}

} // extern "C"
