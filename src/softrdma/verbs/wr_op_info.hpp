// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "verbs/native.hpp"
#include "verbs/objects.hpp"
#include "wire/packet.hpp"

#include <array>
#include <cstring>
#include <type_traits>

namespace softrdma
{

// Number in an enumeration variable of a program, which might have other values than the enumeration.
template<typename enumeration>
std::underlying_type_t<enumeration> number_of(const enumeration &value) noexcept
{
    std::underlying_type_t<enumeration> number;
    memcpy(&number, &value, sizeof(number));
    return number;
}

// Member of wqe::args that a request uses, besides the remote address and key.
enum class wr_args : std::uint8_t {
    message, // no remote address or key
    rdma,
    atomic,
    flush,
    window, // local operation
};

struct wr_op_info {
    bool known = false;
    bool native = false;
    wr_args args = wr_args::rdma;
    bool immediate = false;
    bool invalidates = false; // invalidates a window of the peer
    bool takes_receive = false;
    bool writes_local = false;
    bool round_trip = false; // completed by a response of its own; the number outstanding is limited
    std::uint32_t min_len = 0;
    std::uint32_t max_len = limits::max_message;
    ibv_wc_opcode completion = IBV_WC_SEND;

    constexpr bool message() const noexcept { return args == wr_args::message; }
    constexpr bool atomic() const noexcept { return args == wr_args::atomic; }
    constexpr bool local() const noexcept { return args == wr_args::window; }
};

namespace detail
{

inline constexpr std::size_t opcode_count = 16;

inline constexpr auto wr_op_infos = [] {
    std::array<wr_op_info, opcode_count + 1> infos{}; // the last is for unknown opcodes
    infos[IBV_WR_RDMA_WRITE] = {.known = true, .completion = IBV_WC_RDMA_WRITE};
    infos[IBV_WR_RDMA_WRITE_WITH_IMM] = {
            .known = true, .immediate = true, .takes_receive = true, .completion = IBV_WC_RDMA_WRITE};
    infos[IBV_WR_SEND] = {.known = true, .args = wr_args::message, .takes_receive = true};
    infos[IBV_WR_SEND_WITH_IMM] = {.known = true, .args = wr_args::message, .immediate = true, .takes_receive = true};
    infos[IBV_WR_SEND_WITH_INV] = {.known = true, .args = wr_args::message, .invalidates = true, .takes_receive = true};
    infos[IBV_WR_BIND_MW] = {.known = true, .args = wr_args::window, .max_len = 0, .completion = IBV_WC_BIND_MW};
    infos[IBV_WR_LOCAL_INV] = {.known = true, .args = wr_args::window, .max_len = 0, .completion = IBV_WC_LOCAL_INV};
    infos[IBV_WR_RDMA_READ] = {.known = true, .writes_local = true, .round_trip = true, .completion = IBV_WC_RDMA_READ};
    infos[IBV_WR_ATOMIC_CMP_AND_SWP] = {.known = true,
            .args = wr_args::atomic,
            .writes_local = true,
            .round_trip = true,
            .completion = IBV_WC_COMP_SWAP};
    infos[IBV_WR_ATOMIC_FETCH_AND_ADD] = {.known = true,
            .args = wr_args::atomic,
            .writes_local = true,
            .round_trip = true,
            .completion = IBV_WC_FETCH_ADD};
    infos[native::wr_flush] = {
            .known = true, .native = true, .args = wr_args::flush, .round_trip = true, .completion = native::wc_flush};
    infos[native::wr_atomic_write] = {
            .known = true, .native = true, .round_trip = true, .completion = native::wc_atomic_write};
    for (const auto opcode : {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, native::wr_atomic_write})
        infos[opcode].min_len = infos[opcode].max_len = word_size;
    return infos;
}();

} // namespace detail

// Returns whether an opcode that a program has set is a value of its enumeration. Not every such opcode is supported.
inline bool is_opcode(const ibv_wr_opcode &opcode) noexcept
{
    return number_of(opcode) < detail::opcode_count;
}

constexpr const wr_op_info &info_of(ibv_wr_opcode opcode) noexcept
{
    const auto index = static_cast<std::size_t>(opcode);
    return detail::wr_op_infos[index < detail::opcode_count ? index : detail::opcode_count];
}

} // namespace softrdma
