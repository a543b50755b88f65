// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace softrdma
{

class unique_fd
{
public:
    unique_fd() = default;
    explicit unique_fd(int fd) noexcept : fd_(fd) {}
    unique_fd(unique_fd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    unique_fd &operator=(unique_fd &&other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~unique_fd()
    {
        if (fd_ >= 0)
            close(fd_);
    }
    int get() const noexcept { return fd_; }
    int release() noexcept { return std::exchange(fd_, -1); }

private:
    int fd_ = -1;
};

inline bool set_option(int fd, int level, int option, int value) noexcept // false, with errno set, on error
{
    return setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

// Adds one event to an eventfd. An error is ignored: the counter is full, so its reader is notified anyway.
inline void put_event(int fd) noexcept
{
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof(one));
}

} // namespace softrdma
