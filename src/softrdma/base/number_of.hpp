// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstring>
#include <type_traits>

namespace softrdma
{

// The number in a variable that a program has set. One outside of the range of its enumeration must not be loaded as
// such.
template<typename enumeration>
std::underlying_type_t<enumeration> number_of(const enumeration &value) noexcept
{
    std::underlying_type_t<enumeration> number;
    memcpy(&number, &value, sizeof(number));
    return number;
}

} // namespace softrdma
