// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace softrdma::net
{

// Big-endian numbers in a buffer that the caller has made large enough.
class byte_writer
{
public:
    explicit byte_writer(std::byte *at) : begin_(at), at_(at) {}

    template<typename T>
    byte_writer &put(T value) noexcept
    {
        for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8)
            *at_++ = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> shift);
        return *this;
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

// Reads as long as there is something; good() tells whether everything asked for was there.
class byte_reader
{
public:
    explicit byte_reader(std::span<const std::byte> from) : left_(from) {}

    template<typename T>
    T get() noexcept
    {
        std::uint64_t value = 0;
        const auto taken = take(sizeof(T));
        for (const std::byte b : taken)
            value = value << 8 | static_cast<std::uint64_t>(b);
        return static_cast<T>(value);
    }
    void get_raw(void *to, std::size_t size) noexcept
    {
        const auto taken = take(size);
        if (!taken.empty())
            memcpy(to, taken.data(), taken.size());
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

} // namespace softrdma::net
