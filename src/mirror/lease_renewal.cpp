// SPDX-License-Identifier: BSD-3-Clause
#include "lease_renewal.hpp"

#include <algorithm>
#include <poll.h>

#include "base/clock.hpp"
#include "step.hpp"

using namespace mirror;

void lease_renewal::start()
{
    if (arbiter_.renew_ms() != 0)
        thread_ = quiet_thread([this] { renew(); });
}

void lease_renewal::stop()
{
    if (!thread_.joinable())
        return;
    stop_.raise();
    thread_.join();
    stop_.clear();
}

void lease_renewal::renew()
{
    const int interval_ms = arbiter_.renew_ms();
    std::int64_t renew_at = replica::now_ms() + interval_ms;
    while (!is_fenced_ && !arbiter_.lost()) {
        pollfd poller{stop_.fd(), POLLIN, 0};
        poll(&poller, 1, static_cast<int>(std::max<std::int64_t>(renew_at - replica::now_ms(), 0)));
        if (poller.revents != 0)
            return;
        if (replica::now_ms() < renew_at)
            continue;
        renew_at = replica::now_ms() + interval_ms;
        // One failed renewal is not fatal: arbiter::lost() reports the expiry.
        const replica::deadline until(replica::deadline(interval_ms), stop_.fd());
        if (guarded([&] { arbiter_.renew(until); }) == RPMA_MIRROR_E_FENCED) {
            is_fenced_ = true;
            fenced_.raise();
        }
    }
}
