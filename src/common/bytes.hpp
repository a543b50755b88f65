// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <endian.h>
#include <span>

// Number of bits of a uint64_t that T does not use.
template<typename T>
inline constexpr int unused_bits = 64 - 8 * static_cast<int>(sizeof(T));

// Writes big-endian numbers to a buffer. The caller must provide sufficient space.
class byte_writer
{
public:
    explicit byte_writer(std::byte *at) : begin_(at), at_(at) {}

    template<typename T>
    byte_writer &put(T value) noexcept
    {
        const std::uint64_t wire = htobe64(static_cast<std::uint64_t>(value) << unused_bits<T>);
        return put_raw(&wire, sizeof(T));
    }
    byte_writer &put_raw(const void *from, std::size_t size) noexcept
    {
        if (size > 0)
            memcpy(at_, from, size);
        at_ += size;
        return *this;
    }
    std::size_t size() const noexcept { return static_cast<std::size_t>(at_ - begin_); }

private:
    std::byte *begin_;
    std::byte *at_;
};

// Reads big-endian numbers. good() returns false if a read exceeded the data.
class byte_reader
{
public:
    explicit byte_reader(std::span<const std::byte> from) : left_(from) {}

    template<typename T>
    T get() noexcept
    {
        std::uint64_t wire = 0;
        get_raw(&wire, sizeof(T));
        return static_cast<T>(be64toh(wire) >> unused_bits<T>);
    }
    template<typename T>
    byte_reader &get(T &to) noexcept
    {
        to = get<T>();
        return *this;
    }
    byte_reader &get_raw(void *to, std::size_t size) noexcept
    {
        const auto taken = take(size);
        if (!taken.empty())
            memcpy(to, taken.data(), taken.size());
        return *this;
    }
    byte_reader &ignore(std::size_t size) noexcept
    {
        take(size);
        return *this;
    }
    std::span<const std::byte> rest() const noexcept { return left_; }
    bool good() const noexcept { return good_; }

private:
    std::span<const std::byte> take(std::size_t size) noexcept
    {
        if (left_.size() < size) {
            good_ = false;
            left_ = {};
            return {};
        }
        const auto taken = left_.first(size);
        left_ = left_.subspan(size);
        return taken;
    }

    std::span<const std::byte> left_;
    bool good_ = true;
};
