// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "log.hpp"
#include "pool.hpp"
#include "step.hpp"

// Runs f() for several targets concurrently, and returns those for which it succeeded. f returns 0, or -1
// with the failure reported; the failure is stored in the target.
template<class F, class C>
rpmem_pool::legs rpmem_pool::on_each_target(legs of, int timeout_ms, F f, C is_complete)
{
    rpmem::step concurrently(timeout_ms);
    return concurrently.run(
            of,
            [&](unsigned index, const replica::deadline &until) {
                rpmem::leg &l = *legs_[index];
                if (f(l, until) == 0)
                    return true;
                l.keep_failure();
                if (count_ > 1)
                    rpmem::log_line(rpmem::log_level::warning, "%s: %s", l.name(), l.why.c_str());
                return false;
            },
            is_complete);
}
