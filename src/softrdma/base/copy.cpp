// SPDX-License-Identifier: BSD-3-Clause
#include "base/copy.hpp"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define SOFTRDMA_VECTOR_COPY
#include <immintrin.h>
#endif

namespace softrdma
{

namespace
{

constexpr std::size_t word = sizeof(std::uint64_t);

template<int order>
void store_byte(std::byte *to, std::byte value) noexcept
{
    __atomic_store_n(reinterpret_cast<unsigned char *>(to), static_cast<unsigned char>(value), order);
}

#ifdef SOFTRDMA_VECTOR_COPY

constexpr std::size_t block = 128;

// Vector stores to aligned addresses do not tear the words inside them, and become visible in program order.
__attribute__((target("avx"))) std::size_t copy_blocks_avx(std::byte *to, const std::byte *from, std::size_t bytes)
{
    std::size_t done = 0;
    for (; bytes - done >= block; done += block) {
        const auto *source = reinterpret_cast<const __m256i *>(from + done);
        auto *target = reinterpret_cast<__m256i *>(to + done);
        const __m256i a = _mm256_loadu_si256(source);
        const __m256i b = _mm256_loadu_si256(source + 1);
        const __m256i c = _mm256_loadu_si256(source + 2);
        const __m256i d = _mm256_loadu_si256(source + 3);
        _mm256_store_si256(target, a);
        _mm256_store_si256(target + 1, b);
        _mm256_store_si256(target + 2, c);
        _mm256_store_si256(target + 3, d);
        asm volatile("" ::: "memory"); // keeps the order of the blocks
    }
    for (; bytes - done >= sizeof(__m256i); done += sizeof(__m256i)) {
        const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from + done));
        _mm256_store_si256(reinterpret_cast<__m256i *>(to + done), a);
        asm volatile("" ::: "memory");
    }
    return done;
}

std::size_t copy_blocks_sse(std::byte *to, const std::byte *from, std::size_t bytes)
{
    std::size_t done = 0;
    for (; bytes - done >= block; done += block) {
        for (std::size_t i = 0; i < block; i += sizeof(__m128i)) {
            const auto *source = reinterpret_cast<const __m128i *>(from + done + i);
            _mm_store_si128(reinterpret_cast<__m128i *>(to + done + i), _mm_loadu_si128(source));
        }
        asm volatile("" ::: "memory");
    }
    return done;
}

// Copies whole words from the start of the buffer; `to` is aligned to a word. Returns the number of bytes copied.
std::size_t copy_bulk(std::byte *to, const std::byte *from, std::size_t bytes)
{
    static const auto copy_blocks = __builtin_cpu_supports("avx") ? copy_blocks_avx : copy_blocks_sse;
    constexpr std::size_t alignment = 64;
    std::size_t done = 0;
    if (bytes < 2 * block)
        return 0;
    for (; reinterpret_cast<std::uintptr_t>(to + done) % alignment != 0; done += word)
        store_word<__ATOMIC_RELAXED>(to + done, from + done);
    if (bytes - done > word) // the last word is stored separately
        done += copy_blocks(to + done, from + done, bytes - done - word);
    return done;
}

#else

std::size_t copy_bulk(std::byte *, const std::byte *, std::size_t)
{
    return 0;
}

#endif

} // namespace

[[gnu::noinline]] void copy_some_in(std::byte *registered, const std::byte *from, std::size_t bytes) noexcept
{
    for (; bytes > 0 && (!is_word_aligned(registered) || bytes < word); --bytes)
        store_byte<__ATOMIC_RELEASE>(registered++, *from++);
    const std::size_t bulk = copy_bulk(registered, from, bytes);
    bytes -= bulk;
    registered += bulk;
    from += bulk;
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

void gather_segments(std::byte *to, std::span<const iovec> from) noexcept
{
    for (const iovec &segment : from) {
        if (segment.iov_len > 0) // otherwise the pointers may be NULL
            memcpy(to, segment.iov_base, segment.iov_len);
        to += segment.iov_len;
    }
}

void copy_all_in(std::byte *registered, std::span<const iovec> from)
{
    for (const iovec &segment : from) {
        copy_in(registered, static_cast<const std::byte *>(segment.iov_base), segment.iov_len);
        registered += segment.iov_len;
    }
}

void copy_all_from(const std::byte *registered, std::span<const iovec> to)
{
    for (const iovec &segment : to) {
        copy_in(static_cast<std::byte *>(segment.iov_base), registered, segment.iov_len);
        registered += segment.iov_len;
    }
}

void copy_out(std::byte *to, const std::byte *registered, std::size_t bytes) noexcept
{
    while (bytes > 0) {
        if (is_word_aligned(registered) && bytes >= word) {
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
