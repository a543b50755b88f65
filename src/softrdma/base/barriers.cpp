// SPDX-License-Identifier: BSD-3-Clause
#include "base/barriers.hpp"
#include "base/process.hpp"

#include <cerrno>
#include <chrono>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace softrdma::barriers
{

namespace
{

bool membarrier(membarrier_cmd command) noexcept
{
    const int before = errno;
    const bool done = syscall(SYS_membarrier, command, 0, 0) == 0;
    errno = before;
    return done;
}

void wait() noexcept
{
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

} // namespace

bool enroll() noexcept
{
    static constinit process::single<const bool> enrolled;
    return enrolled.get(
            [] { return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) ? &process::yes : &process::no; });
}

void execute_between_processes(bool all_enrolled) noexcept
{
    if (!enroll() || !all_enrolled || !membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED))
        wait();
}

} // namespace softrdma::barriers
