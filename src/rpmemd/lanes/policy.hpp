// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "message/control.hpp"
#include "region/file_map.hpp"

namespace rpmemd
{

using replica::medium;

// Method that makes writes of clients durable, and the persistence level that it reaches.
struct policy {
    replica::method method = replica::method::messages;
    replica::level level = replica::level::volatile_memory;
    bool direct_write = false; // sent to the client: RDMA writes reach the memory directly
};

// Selects the policy for the medium and the device. A software device flushes at the target. An RDMA device reaches
// persistent memory only if the operator states that writes bypass the caches (persist_apm), or by native flushes if
// the client supports them (replica::feature_native_flush).
policy choose_policy(medium kind, bool persist_apm, bool software_device);

// Returns the number of the level, such as "2", and the higher level that a native flush reaches, if any.
std::string describe(replica::level level, bool flushes_natively);

std::string describe(medium kind, bool persist_apm);

} // namespace rpmemd
