// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "control.hpp"
#include "part_map.hpp"

namespace rpmemd
{

// How what clients write becomes durable, and what that is worth.
struct policy {
    replica::method method = replica::method::messages;
    replica::level level = replica::level::volatile_memory;
    bool direct_write = false; // what the client is told of this side's memory
};

// What the medium of a pool and the device allow to any client. A software device flushes at the target by itself; that
// of hardware reaches persistent memory only where the operator says that writes go past the caches, or, for clients
// that do so, too, by native flushes (replica::feature_native_flush).
policy choose_policy(medium kind, bool persist_apm, bool software_device);

// "2", and what is had in addition where the device flushes natively.
std::string describe(replica::level level, bool flushes_natively);

// Three lines for the log.
std::string describe(medium kind, bool persist_apm);

} // namespace rpmemd
