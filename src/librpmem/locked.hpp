// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

namespace rpmem
{

// Locks a mutex until the end of the scope.
class locked
{
public:
    explicit locked(pthread_mutex_t &mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
    ~locked() { pthread_mutex_unlock(&mutex_); }
    locked(const locked &) = delete;
    locked &operator=(const locked &) = delete;

private:
    pthread_mutex_t &mutex_;
};

} // namespace rpmem
