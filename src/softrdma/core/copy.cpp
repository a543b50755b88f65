// SPDX-License-Identifier: BSD-3-Clause
#include "core/copy.hpp"

#include <cstdint>
#include <cstring>

namespace softrdma
{

namespace
{

constexpr std::size_t word = sizeof(std::uint64_t);

bool aligned(const std::byte *p) noexcept
{
    return reinterpret_cast<std::uintptr_t>(p) % word == 0;
}

template<int order>
void store_byte(std::byte *to, std::byte value) noexcept
{
    __atomic_store_n(reinterpret_cast<unsigned char *>(to), static_cast<unsigned char>(value), order);
}

template<int order>
void store_word(std::byte *to, const std::byte *from) noexcept
{
    std::uint64_t value;
    memcpy(&value, from, word);
    __atomic_store_n(reinterpret_cast<std::uint64_t *>(to), value, order);
}

} // namespace

void copy_in(std::byte *registered, const std::byte *from, std::size_t bytes) noexcept
{
    for (; bytes > 0 && (!aligned(registered) || bytes < word); --bytes)
        store_byte<__ATOMIC_RELEASE>(registered++, *from++);
    for (; bytes >= 2 * word; bytes -= word, registered += word, from += word)
        store_word<__ATOMIC_RELAXED>(registered, from);
    if (bytes >= word) {
        store_word<__ATOMIC_RELEASE>(registered, from);
        bytes -= word;
        registered += word;
        from += word;
    }
    for (; bytes > 0; --bytes)
        store_byte<__ATOMIC_RELEASE>(registered++, *from++);
}

void copy_out(std::byte *to, const std::byte *registered, std::size_t bytes) noexcept
{
    while (bytes > 0) {
        if (aligned(registered) && bytes >= word) {
            const std::uint64_t value =
                    __atomic_load_n(reinterpret_cast<const std::uint64_t *>(registered), __ATOMIC_ACQUIRE);
            memcpy(to, &value, word);
            to += word;
            registered += word;
            bytes -= word;
        } else {
            *to++ = static_cast<std::byte>(
                    __atomic_load_n(reinterpret_cast<const unsigned char *>(registered++), __ATOMIC_ACQUIRE));
            --bytes;
        }
    }
}

} // namespace softrdma
