// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "verbs/native.hpp"
#include "verbs/objects.hpp"
#include "wire/packet.hpp"

#include <array>
#include <span>

namespace softrdma
{

// What the opcode of a work request says about it.
struct request_kind {
    bool known = false;
    bool native = false; // of those that a device may lack
    bool message = false;
    bool immediate = false;
    bool takes_receive = false;
    bool atomic = false;
    bool wide = false; // its arguments are where those of atomic operations are
    bool scatters = false;
    std::uint32_t least = 0; // bytes of data
    std::uint32_t most = limits::max_message;
    ibv_wc_opcode completion = IBV_WC_SEND;
};

namespace detail
{

inline constexpr std::size_t opcode_count = 16;

inline constexpr auto request_kinds = [] {
    std::array<request_kind, opcode_count + 1> kinds{}; // the last one is that of all others
    kinds[IBV_WR_RDMA_WRITE] = {.known = true, .completion = IBV_WC_RDMA_WRITE};
    kinds[IBV_WR_RDMA_WRITE_WITH_IMM] = {
            .known = true, .immediate = true, .takes_receive = true, .completion = IBV_WC_RDMA_WRITE};
    kinds[IBV_WR_SEND] = {.known = true, .message = true, .takes_receive = true};
    kinds[IBV_WR_SEND_WITH_IMM] = {.known = true, .message = true, .immediate = true, .takes_receive = true};
    kinds[IBV_WR_RDMA_READ] = {.known = true, .scatters = true, .completion = IBV_WC_RDMA_READ};
    kinds[IBV_WR_ATOMIC_CMP_AND_SWP] = {
            .known = true, .atomic = true, .wide = true, .scatters = true, .completion = IBV_WC_COMP_SWAP};
    kinds[IBV_WR_ATOMIC_FETCH_AND_ADD] = {
            .known = true, .atomic = true, .wide = true, .scatters = true, .completion = IBV_WC_FETCH_ADD};
    kinds[native::wr_flush] = {.known = true, .native = true, .wide = true, .completion = native::wc_flush};
    kinds[native::wr_atomic_write] = {.known = true, .native = true, .completion = native::wc_atomic_write};
    for (const auto opcode : {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, native::wr_atomic_write})
        kinds[opcode].least = kinds[opcode].most = word_size;
    return kinds;
}();

} // namespace detail

constexpr const request_kind &kind_of(ibv_wr_opcode opcode) noexcept
{
    const auto index = static_cast<std::size_t>(opcode);
    return detail::request_kinds[index < detail::opcode_count ? index : detail::opcode_count];
}

constexpr std::uint64_t length_of(std::span<const ibv_sge> pieces) noexcept
{
    std::uint64_t length = 0;
    for (const ibv_sge &piece : pieces)
        length += piece.length;
    return length;
}

inline std::span<const ibv_sge> pieces_of(const ibv_send_wr &wr) noexcept
{
    return {wr.sg_list, static_cast<std::size_t>(wr.num_sge)};
}

// ATOMIC WRITE carries its word whatever room for inline data was asked for.
constexpr std::uint32_t inline_room(ibv_wr_opcode opcode, std::uint32_t asked_for) noexcept
{
    return opcode == native::wr_atomic_write ? word_size : asked_for;
}

} // namespace softrdma
