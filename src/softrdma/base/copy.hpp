// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <sys/uio.h>

#ifdef __SANITIZE_THREAD__
extern "C" void AnnotateIgnoreReadsBegin(const char *file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char *file, int line);
#endif

namespace softrdma
{

inline bool is_word_aligned(const std::byte *at) noexcept
{
    return reinterpret_cast<std::uintptr_t>(at) % sizeof(std::uint64_t) == 0;
}

template<int order>
void store_word(std::byte *to, const std::byte *from) noexcept
{
    std::uint64_t value;
    memcpy(&value, from, sizeof(value));
    __atomic_store_n(reinterpret_cast<std::uint64_t *>(to), value, order);
}

inline std::size_t total_length(std::span<const iovec> segments) noexcept
{
    std::size_t bytes = 0;
    for (const iovec &segment : segments)
        bytes += segment.iov_len;
    return bytes;
}

void gather_segments(std::byte *to, std::span<const iovec> from) noexcept; // into private memory

// Copies between registered and private memory, in ascending order, without tearing aligned 8-byte words.

void copy_out(std::byte *to, const std::byte *registered, std::size_t bytes) noexcept;
void copy_some_in(std::byte *registered, const std::byte *from, std::size_t bytes) noexcept;

// The last word is stored last and with release ordering, because programs poll it. It is often the only word.
inline void copy_in(std::byte *registered, const std::byte *from, std::size_t bytes) noexcept
{
    if (bytes == sizeof(std::uint64_t) && is_word_aligned(registered))
        store_word<__ATOMIC_RELEASE>(registered, from);
    else
        copy_some_in(registered, from, bytes);
}

void copy_all_in(std::byte *registered, std::span<const iovec> from);
void copy_all_from(const std::byte *registered, std::span<const iovec> to);

// Like copy_in(), but for bytes that may have been received directly into their destination.
inline void copy_to_place(std::byte *registered, const std::byte *from, std::size_t bytes) noexcept
{
    if (from != registered)
        copy_in(registered, from, bytes);
}

// Scope in which the kernel reads memory for a peer; hides the reads, whose order only programs know, from TSan.
class unordered_reads
{
public:
#ifdef __SANITIZE_THREAD__
    unordered_reads() noexcept
    {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    }
    ~unordered_reads()
    {
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
#else
    unordered_reads() noexcept {}
#endif
    unordered_reads(const unordered_reads &) = delete;
    unordered_reads &operator=(const unordered_reads &) = delete;
};

} // namespace softrdma
