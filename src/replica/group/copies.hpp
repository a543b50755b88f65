// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <cstdint>

namespace group
{

using copy_mask = std::uint32_t; // copies of a group, as bits

constexpr copy_mask bit_of(unsigned copy)
{
    return copy_mask{1} << copy;
}

// `copies` must not be empty.
constexpr unsigned first_of(copy_mask copies)
{
    return static_cast<unsigned>(std::countr_zero(copies));
}

template<class F>
void each_copy(copy_mask copies, F &&f)
{
    for (; copies != 0; copies &= copies - 1)
        f(first_of(copies));
}

} // namespace group
