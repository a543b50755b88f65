// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstring>
#include <type_traits>

namespace softrdma
{

// Number in an enumeration variable that a program has set. A value outside the range of the enumeration must not be
// loaded as that type.
template<typename enumeration>
std::underlying_type_t<enumeration> number_of(const enumeration &value) noexcept
{
    std::underlying_type_t<enumeration> number;
    memcpy(&number, &value, sizeof(number));
    return number;
}

} // namespace softrdma
