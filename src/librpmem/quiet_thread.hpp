// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

namespace rpmem
{

// Starts a thread with all signals blocked, so that it receives none of the application's signals. Returns 0 or an
// errno value.
int start_quiet_thread(pthread_t *thread, void *(*function)(void *), void *argument);

} // namespace rpmem
