// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace replica
{

// String of at most Capacity bytes without heap memory. Longer strings are truncated. c_str() is NUL-terminated.
template<std::size_t Capacity>
class short_text
{
public:
    short_text() = default;
    short_text(std::string_view text) { assign(text); }

    // Returns false if the text was truncated.
    bool assign(std::string_view text)
    {
        size_ = text.size() < Capacity ? text.size() : Capacity;
        if (size_ > 0)
            std::memcpy(bytes_, text.data(), size_);
        bytes_[size_] = '\0';
        return size_ == text.size();
    }

    [[gnu::format(printf, 2, 3)]] void format(const char *pattern, ...)
    {
        std::va_list arguments;
        va_start(arguments, pattern);
        format_list(pattern, arguments);
        va_end(arguments);
    }

    [[gnu::format(printf, 2, 0)]] void format_list(const char *pattern, std::va_list arguments)
    {
        const int length = std::vsnprintf(bytes_, sizeof(bytes_), pattern, arguments);
        size_ = length < 0                                    ? 0
                : static_cast<std::size_t>(length) < Capacity ? static_cast<std::size_t>(length)
                                                              : Capacity;
        bytes_[size_] = '\0';
    }

    std::string_view view() const { return {bytes_, size_}; }
    const char *c_str() const { return bytes_; }
    bool empty() const { return size_ == 0; }
    static constexpr std::size_t capacity = Capacity;

private:
    std::size_t size_ = 0;
    char bytes_[Capacity + 1] = {};
};

} // namespace replica
