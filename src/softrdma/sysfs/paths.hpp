// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace softrdma::sysfs
{

// Path of a call of the program, with names of the device replaced by those of its private files.
class located
{
public:
    // A relative `path` starts at the descriptor `directory`, or AT_FDCWD.
    located(int directory, const char *path) noexcept;
    explicit located(const char *path) noexcept;
    located(const located &) = delete;
    located &operator=(const located &) = delete;
    const char *path() const noexcept { return own_.empty() ? path_ : own_.c_str(); }
    bool is_of_device() const noexcept { return !own_.empty(); }

private:
    const char *path_;
    std::string own_;
};

// Replaces the start of a path inside the private directory by the name that the program knows. Returns `path`.
char *make_visible(char *path) noexcept;
// Like make_visible(), but for text without a final NUL. Returns the new length.
std::size_t make_visible(char *text, std::size_t length) noexcept;

} // namespace softrdma::sysfs
