// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

namespace rpmem
{

// Starts a thread to which the kernel delivers no signals of the application. Returns 0 or an errno value.
int start_quiet_thread(pthread_t *thread, void *(*function)(void *), void *argument);

} // namespace rpmem
