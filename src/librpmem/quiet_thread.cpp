// SPDX-License-Identifier: BSD-3-Clause
#include "quiet_thread.hpp"

#include <csignal>

namespace rpmem
{

int start_quiet_thread(pthread_t *thread, void *(*function)(void *), void *argument)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, nullptr, function, argument);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return error;
}

} // namespace rpmem
