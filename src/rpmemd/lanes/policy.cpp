// SPDX-License-Identifier: BSD-3-Clause
#include "lanes/policy.hpp"

#include "environment.hpp"

namespace rpmemd
{

namespace
{

replica::level level_of(medium kind)
{
    switch (kind) {
    case medium::memory:
        return replica::level::volatile_memory;
    case medium::page_cache:
        return replica::level::page_cache_sync;
    default:
        return replica::level::cpu_flushed;
    }
}

// Returns whether a read after a write makes the write durable, as clients without native flush require. With
// SOFTRDMA_READ_FLUSH=off the device behaves like hardware without this guarantee.
bool flushes_on_read(bool software_device)
{
    return software_device && !environment::is("SOFTRDMA_READ_FLUSH", "off");
}

} // namespace

policy choose_policy(medium kind, bool persist_apm, bool software_device)
{
    if (persist_apm && kind == medium::persistent)
        return {replica::method::persistent_flush, replica::level::direct_write, true};
    if (kind == medium::memory)
        return {replica::method::visibility_flush, level_of(kind), false};
    if (flushes_on_read(software_device))
        return {replica::method::persistent_flush, level_of(kind), true};
    return {replica::method::messages, level_of(kind), false};
}

std::string describe(replica::level level, bool flushes_natively)
{
    const bool persistent = level >= replica::level::cpu_flushed;
    return std::to_string(static_cast<unsigned>(level)) +
           (persistent && flushes_natively ? ", 4 where the device of the client flushes natively, too" : "");
}

std::string describe(medium kind, bool persist_apm)
{
    const bool persistent = kind == medium::persistent;
    const bool appliance = persist_apm && persistent;
    return std::string("persistency policy:\n    persist method: ") +
           (appliance ? "Appliance Persistency Method" : "General Purpose Server Persistency Method") +
           "\n    persist flush: " +
           (appliance           ? "none"
                   : persistent ? "pmem_persist"
                                : "pmem_msync");
}

} // namespace rpmemd
