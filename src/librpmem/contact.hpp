// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "log.hpp"
#include "pool.hpp"
#include "step.hpp"

// Runs f() for several targets concurrently and returns those for which it succeeded. f() returns 0, or -1 with the
// failure reported; the failure is stored in the replica.
template<class F, class C>
rpmem_pool::replica_mask rpmem_pool::on_each_target(replica_mask of, int timeout_ms, F f, C is_complete)
{
    rpmem::step concurrently(timeout_ms);
    return concurrently.run(
            of,
            [&](unsigned index, const replica::deadline &until) {
                rpmem::remote_replica &rep = *replicas_[index];
                if (f(rep, until) == 0)
                    return true;
                rep.save_error();
                if (count_ > 1)
                    rpmem::log_line(rpmem::log_level::warning, "%s: %s", rep.name(), rep.reason.c_str());
                return false;
            },
            is_complete);
}
