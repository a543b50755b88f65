// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <climits>
#include <cstddef>

namespace softrdma::sysfs
{

// Path of a call, with names of the device replaced. No destructor: the C library cannot unwind a canceled thread.
class located
{
public:
    // A relative `path` starts at `directory`. Without `can_list`, parents of the device's directories are kept.
    located(int directory, const char *path, bool can_list = true) noexcept;
    explicit located(const char *path) noexcept;
    located(const located &) = delete;
    located &operator=(const located &) = delete;
    const char *path() const noexcept { return path_; }
    bool is_of_device() const noexcept { return path_ == own_; }

private:
    const char *path_;
    char own_[PATH_MAX];
};

// Replaces the private directory in a path by the name that the program knows. Returns `path`.
char *make_visible(char *path) noexcept;
// Like make_visible(path), for text without a final NUL. Returns the new length.
std::size_t make_visible(char *text, std::size_t length) noexcept;

} // namespace softrdma::sysfs
