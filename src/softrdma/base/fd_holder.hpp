// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>
#include <utility>

namespace softrdma::local
{

class fd_holder
{
public:
    fd_holder() = default;
    explicit fd_holder(int fd) noexcept : fd_(fd) {}
    fd_holder(fd_holder &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    fd_holder &operator=(fd_holder &&other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~fd_holder()
    {
        if (fd_ >= 0)
            close(fd_);
    }
    int get() const noexcept { return fd_; }
    int release() noexcept { return std::exchange(fd_, -1); }

private:
    int fd_ = -1;
};

} // namespace softrdma::local
