// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <concepts>
#include <cstddef>

// Conversion between integers and little-endian bytes of any alignment.
template<std::unsigned_integral T>
inline void store_le(unsigned char *to, T value)
{
    for (std::size_t i = 0; i < sizeof(T); ++i)
        to[i] = static_cast<unsigned char>(value >> (8 * i));
}

template<std::unsigned_integral T>
inline T load_le(const unsigned char *from)
{
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
        value = static_cast<T>(value | static_cast<T>(from[i]) << (8 * i));
    return value;
}
