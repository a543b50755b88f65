// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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

} // namespace softrdma
