// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "target.hpp"

namespace replica
{

// The words that start the daemon at a target.
class command
{
public:
    command() = default;
    command(const command &) = delete;
    command &operator=(const command &) = delete;
    ~command();

    // daemon is what a shell at the target runs. Arguments, up to NULL, become words of their own, whatever is in them.
    // False: there is no memory.
    bool build(const target &to, const char *ssh, const char *daemon, const char *const arguments[]);

    static constexpr std::size_t max_words = 12;
    // NULL behind the last one.
    char *const *words() const { return words_; }

private:
    bool add(const char *text);

    char *words_[max_words + 1]{};
    std::size_t count_ = 0;
};

} // namespace replica
