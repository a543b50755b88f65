// SPDX-License-Identifier: BSD-3-Clause
#include "base/descriptors.hpp"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <sys/resource.h>

namespace softrdma::descriptors
{

static bool raise(rlimit &limit) noexcept
{
    if (limit.rlim_cur >= limit.rlim_max)
        return false;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

void opened(int newest) noexcept
{
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(newest) >= limit.rlim_cur / 2)
        raise(limit);
}

bool exhausted(int error) noexcept
{
    static std::atomic<bool> reported{false};
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    if (error == EMFILE && raise(limit))
        return true;
    if (reported.exchange(true))
        return false;
    if (error == EMFILE)
        fprintf(stderr,
                "softrdma: connections wait or fail: all %llu descriptors are in use, of which each queue pair takes "
                "one (raise the hard limit: ulimit -Hn, LimitNOFILE= of systemd)\n",
                static_cast<unsigned long long>(limit.rlim_cur));
    else
        fprintf(stderr,
                "softrdma: connections wait or fail: limit of open files of the system reached (raise fs.file-max)\n");
    return false;
}

} // namespace softrdma::descriptors
