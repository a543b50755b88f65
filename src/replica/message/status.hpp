// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <cstdint>

#include "shortage.hpp"

namespace replica
{

enum class status : std::uint32_t {
    success = 0,
    bad_version = 1,
    bad_name = 2,
    bad_size = 3,
    bad_lanes = 4,
    bad_device = 5,
    fatal = 6,
    fatal_connection = 7,
    busy = 8,
    exists = 9,
    device_unsupported = 10,
    missing = 11,
    no_access = 12,
    bad_config = 13,
    unsupported = 14,
    fenced = 15,
};
inline constexpr std::uint32_t max_status = 15;

// Converts a status to the errno value that librpmem returns.
constexpr int errno_of(status received)
{
    constexpr int errors[] = {0, EPROTONOSUPPORT, EINVAL, EFBIG, EINVAL, EINVAL, EREMOTEIO, ECONNABORTED, EBUSY, EEXIST,
            EMEDIUMTYPE, ENOENT, EACCES, EINVAL, ENOTSUP, ESTALE};
    static_assert(sizeof(errors) / sizeof(errors[0]) == max_status + 1);
    return errors[static_cast<std::uint32_t>(received)];
}

constexpr status status_of_errno(int error)
{
    switch (error) {
    case 0:
        return status::success;
    case EEXIST:
        return status::exists;
    case EACCES:
        return status::no_access;
    case ENOENT:
        return status::missing;
    case EBUSY:
    case EWOULDBLOCK:
        return status::busy;
    case EMEDIUMTYPE:
        return status::device_unsupported;
    case EBADF:
        return status::bad_name;
    case EINVAL:
        return status::bad_config;
    case EFBIG:
        return status::bad_size;
    case ESTALE:
        return status::fenced;
    case ENOTSUP:
        return status::unsupported;
    default:
        return status::fatal;
    }
}

using ::is_local_shortage;

} // namespace replica
