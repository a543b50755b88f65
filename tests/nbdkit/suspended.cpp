// SPDX-License-Identifier: BSD-3-Clause
// Preloaded into nbdkit. The next end of a shared lock, with which a read ends its copy of blocks, removes the file
// SUSPENDED, stops the process, and counts as an hour in which the machine was suspended.
#include "../mirror/clocks.hpp"

#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <pthread.h>

extern "C" int pthread_rwlock_unlock(pthread_rwlock_t *lock) noexcept
{
    static const auto next =
            reinterpret_cast<decltype(&pthread_rwlock_unlock)>(dlsym(RTLD_NEXT, "pthread_rwlock_unlock"));
    if (const char *const file = getenv("SUSPENDED"); file != nullptr && unlink(file) == 0) {
        raise(SIGSTOP);
        suspended_s += 3600;
    }
    return next(lock);
}
