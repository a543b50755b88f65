// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

// Postpones the cancellation of the thread (pthread_cancel(3)) to the end of its scope.
class no_cancellation
{
public:
    no_cancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~no_cancellation() { pthread_setcancelstate(before_, nullptr); }
    no_cancellation(const no_cancellation &) = delete;
    no_cancellation &operator=(const no_cancellation &) = delete;

private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};
