// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "target.hpp"

namespace replica
{

// Argument vector that starts the daemon at a target.
class command
{
public:
    command() = default;
    command(const command &) = delete;
    command &operator=(const command &) = delete;
    ~command();

    // Builds the arguments. A shell at the target runs `daemon`. Each of the NULL-terminated arguments becomes one
    // quoted word. Returns false if out of memory.
    bool build(const target &to, const char *ssh, const char *daemon, const char *const arguments[]);

    static constexpr std::size_t max_words = 12;
    // Returns the NULL-terminated array.
    char *const *words() const { return words_; }

private:
    bool add(const char *text);

    char *words_[max_words + 1]{};
    std::size_t count_ = 0;
};

} // namespace replica
