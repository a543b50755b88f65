// SPDX-License-Identifier: BSD-3-Clause
#include <type_traits>

#include "boundary.hpp"
#include "conn.hpp"
#include "log.hpp"
#include "rdma/work_request.hpp"

// The data path. Each function goes straight to the provider when every pointer is set and everything is in range; what
// remains, from bad arguments to operations without bytes, is decided out of line.

using namespace rpma;

namespace
{

bool in_range(const rpma_mr_local *mr, std::size_t offset, std::size_t len)
{
    return mr->can_transfer(offset, len);
}
bool in_range(const rpma_mr_remote *mr, std::size_t offset, std::size_t len)
{
    return mr->contains(offset, len);
}

// Of dst and src one is local, the other remote: the opcode's direction is theirs. Arguments stay in the order of the C
// functions, so that they stay in their registers as well.
template<ibv_wr_opcode Opcode, class Dst, class Src>
[[gnu::always_inline]] inline int post_transfer(rpma_conn *conn, const Dst *dst, std::size_t dst_offset, const Src *src,
        std::size_t src_offset, std::size_t len, int flags, const void *op_context, std::uint32_t imm)
{
    const auto post = [&](const rpma_mr_local *local, std::size_t local_offset, const rpma_mr_remote *remote,
                              std::size_t remote_offset) {
        ibv_sge sge = local->sge(local_offset, len);
        return rdma::post_rdma(conn->qp(), Opcode, &sge, remote->address(remote_offset), remote->rkey(),
                rdma::signalled(flags), op_context, imm);
    };
    if constexpr (std::is_same_v<Dst, rpma_mr_local>)
        return post(dst, dst_offset, src, src_offset);
    else
        return post(src, src_offset, dst, dst_offset);
}

template<ibv_wr_opcode Opcode, class Dst, class Src>
[[gnu::cold, gnu::noinline]] int decide_transfer(rpma_conn *conn, const Dst *dst, std::size_t dst_offset,
        const Src *src, std::size_t src_offset, std::size_t len, int flags, const void *op_context, std::uint32_t imm)
{
    if (conn == nullptr || flags == 0)
        return RPMA_E_INVAL;
    if (dst == nullptr && src == nullptr) {
        if (dst_offset != 0 || src_offset != 0 || len != 0)
            return RPMA_E_INVAL;
        return rdma::post_rdma(conn->qp(), Opcode, nullptr, 0, 0, rdma::signalled(flags), op_context, imm);
    }
    if (dst == nullptr || src == nullptr || !in_range(dst, dst_offset, len) || !in_range(src, src_offset, len))
        return RPMA_E_INVAL;
    return post_transfer<Opcode>(conn, dst, dst_offset, src, src_offset, len, flags, op_context, imm);
}

// A read or write between a part of a local and an equally long part of a remote region.
template<ibv_wr_opcode Opcode, class Dst, class Src>
[[gnu::always_inline]] inline int transfer(rpma_conn *conn, const Dst *dst, std::size_t dst_offset, const Src *src,
        std::size_t src_offset, std::size_t len, int flags, const void *op_context, std::uint32_t imm = 0)
{
    if (!surely_set(conn, dst) || src == nullptr || flags == 0 || !in_range(dst, dst_offset, len) ||
            !in_range(src, src_offset, len)) [[unlikely]]
        return decide_transfer<Opcode>(conn, dst, dst_offset, src, src_offset, len, flags, op_context, imm);
    return post_transfer<Opcode>(conn, dst, dst_offset, src, src_offset, len, flags, op_context, imm);
}

template<ibv_wr_opcode Opcode>
[[gnu::always_inline]] inline int post_message(rpma_conn *conn, const rpma_mr_local *src, std::size_t offset,
        std::size_t len, int flags, const void *op_context, std::uint32_t imm)
{
    ibv_sge sge = src->sge(offset, len);
    return rdma::post_send(conn->qp(), Opcode, &sge, rdma::signalled(flags), op_context, imm);
}

template<ibv_wr_opcode Opcode>
[[gnu::cold, gnu::noinline]] int decide_message(rpma_conn *conn, const rpma_mr_local *src, std::size_t offset,
        std::size_t len, int flags, const void *op_context, std::uint32_t imm)
{
    if (conn == nullptr || flags == 0)
        return RPMA_E_INVAL;
    if (src == nullptr) {
        if (offset != 0 || len != 0)
            return RPMA_E_INVAL;
        return rdma::post_send(conn->qp(), Opcode, nullptr, rdma::signalled(flags), op_context, imm);
    }
    if (!src->can_transfer(offset, len))
        return RPMA_E_INVAL;
    return post_message<Opcode>(conn, src, offset, len, flags, op_context, imm);
}

template<ibv_wr_opcode Opcode>
[[gnu::always_inline]] inline int send(rpma_conn *conn, const rpma_mr_local *src, std::size_t offset, std::size_t len,
        int flags, const void *op_context, std::uint32_t imm = 0)
{
    if (!surely_set(conn, src) || flags == 0 || !src->can_transfer(offset, len)) [[unlikely]]
        return decide_message<Opcode>(conn, src, offset, len, flags, op_context, imm);
    return post_message<Opcode>(conn, src, offset, len, flags, op_context, imm);
}

// The placement of a native flush, and the RPMA_MR_USAGE_FLUSH_TYPE_* bit, of a flush type: found without branches.
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
constexpr bool known(unsigned type)
{
    return type <= RPMA_FLUSH_TYPE_VISIBILITY;
}

// Out of line, both methods: what one needs would burden the other. They take the arguments of rpma_flush as they are.
[[gnu::noinline]] int post_emulated_flush(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset, std::size_t,
        unsigned, int flags, const void *op_context)
{
    ibv_sge target = conn->flush().read_target(dst->flush_read_length());
    return rdma::post_rdma(conn->qp(), IBV_WR_RDMA_READ, &target, dst->flush_read_address(offset), dst->rkey(),
            rdma::signalled(flags), op_context);
}

template<std::uint8_t Level>
[[gnu::noinline]] int post_native_flush(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset, std::size_t len,
        unsigned type, int flags, const void *op_context)
{
    return rdma::post_native_flush(conn->flush().native(), dst->address(offset), dst->rkey(), len,
            static_cast<std::uint8_t>(placement_of(dst->native_flush_type(type))), Level, rdma::signalled(flags),
            op_context);
}

[[gnu::cold, gnu::noinline]] int decide_flush(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset,
        std::size_t len, unsigned type, int flags, const void *op_context)
{
    if (conn == nullptr || dst == nullptr || flags == 0 || !known(type))
        return RPMA_E_INVAL;
    if ((conn->flush_types() & usage_of(type)) == 0) {
        RPMA_LOG_ERROR("no persistent flush: the remote peer's configuration does not say that it writes directly to "
                       "PMem, or was not applied\n");
        return RPMA_E_NOSUPP;
    }
    if ((dst->usage() & usage_of(type)) == 0) {
        RPMA_LOG_ERROR("the remote region is not registered for a flush to %s\n",
                type == RPMA_FLUSH_TYPE_PERSISTENT ? "persistence" : "visibility");
        return RPMA_E_NOSUPP;
    }
    if (!dst->contains(offset, len))
        return RPMA_E_INVAL;
    if (conn->flush().native() != nullptr) {
        // What is longer than the wire's length field holds is flushed with its whole region.
        return dst->can_flush_range(offset, len)
                       ? post_native_flush<rdma::flush_level_range>(conn, dst, offset, len, type, flags, op_context)
                       : post_native_flush<rdma::flush_level_mr>(conn, dst, offset, len, type, flags, op_context);
    }
    return post_emulated_flush(conn, dst, offset, len, type, flags, op_context);
}

// Out of line for the same reason as the ways to flush.
[[gnu::noinline]] int post_emulated_atomic_write(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset,
        const char *src, int flags, const void *op_context)
{
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(src), RPMA_ATOMIC_WRITE_ALIGNMENT, 0};
    return rdma::post_rdma(conn->qp(), IBV_WR_RDMA_WRITE, &sge, dst->address(offset), dst->rkey(),
            rdma::signalled(flags) | IBV_SEND_INLINE | IBV_SEND_FENCE, op_context);
}

[[gnu::always_inline]] inline int post_atomic_write(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset,
        const char *src, int flags, const void *op_context)
{
    ibv_qp_ex *const qpx = conn->native_atomic_write();
    if (qpx == nullptr)
        return post_emulated_atomic_write(conn, dst, offset, src, flags, op_context);
    return rdma::post_native_atomic_write(qpx, dst->address(offset), dst->rkey(), src,
            rdma::signalled(flags) | conn->native_atomic_write_flags(), op_context);
}

[[gnu::cold, gnu::noinline]] int decide_atomic_write(rpma_conn *conn, const rpma_mr_remote *dst, std::size_t offset,
        const char *src, int flags, const void *op_context)
{
    if (conn == nullptr || dst == nullptr || src == nullptr || flags == 0 ||
            offset % RPMA_ATOMIC_WRITE_ALIGNMENT != 0 || !dst->contains(offset, RPMA_ATOMIC_WRITE_ALIGNMENT))
        return RPMA_E_INVAL;
    dst->warn_if_unaligned();
    return post_atomic_write(conn, dst, offset, src, flags, op_context);
}

[[gnu::cold, gnu::noinline]] int decide_recv(
        rpma_conn *conn, const rpma_mr_local *dst, std::size_t offset, std::size_t len, const void *op_context)
{
    if (conn == nullptr)
        return RPMA_E_INVAL;
    if (dst == nullptr) {
        if (offset != 0 || len != 0)
            return RPMA_E_INVAL;
        return rdma::post_receive(conn->qp(), nullptr, op_context);
    }
    if (!dst->can_transfer(offset, len))
        return RPMA_E_INVAL;
    ibv_sge sge = dst->sge(offset, len);
    return rdma::post_receive(conn->qp(), &sge, op_context);
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
    if (!surely_set(conn, dst) || src == nullptr || flags == 0 || dst_offset % RPMA_ATOMIC_WRITE_ALIGNMENT != 0 ||
            !dst->contains_aligned_word(dst_offset)) [[unlikely]]
        return decide_atomic_write(conn, dst, dst_offset, src, flags, op_context);
    return post_atomic_write(conn, dst, dst_offset, src, flags, op_context);
}

int rpma_flush(struct rpma_conn *conn, struct rpma_mr_remote *dst, size_t dst_offset, size_t len,
        enum rpma_flush_type type, int flags, const void *op_context)
{
    const auto kind = static_cast<unsigned>(type);
    if (!surely_set(conn, dst) || flags == 0 || !known(kind) ||
            (conn->flush_types() & dst->usage() & usage_of(kind)) == 0 || !dst->can_flush_range(dst_offset, len))
            [[unlikely]]
        return decide_flush(conn, dst, dst_offset, len, kind, flags, op_context);
    if (conn->flush().native() != nullptr)
        return post_native_flush<rdma::flush_level_range>(conn, dst, dst_offset, len, kind, flags, op_context);
    return post_emulated_flush(conn, dst, dst_offset, len, kind, flags, op_context);
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
    if (!surely_set(conn, dst) || !dst->can_transfer(offset, len)) [[unlikely]]
        return decide_recv(conn, dst, offset, len, op_context);
    ibv_sge sge = dst->sge(offset, len);
    return rdma::post_receive(conn->qp(), &sge, op_context);
}

} // extern "C"
