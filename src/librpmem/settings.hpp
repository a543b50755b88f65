// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace rpmem
{

// Settings that are read from the environment when the library is loaded.
struct load_settings {
    int max_lanes;
    int queue_depth;
    int log_level; // -1 without a valid RPMEM_LOG_LEVEL
    char log_file[4096];
    char *commands; // command lines of RPMEM_CMD, separated by '|' and used in turn
};
const load_settings &settings();

std::string next_command();

// Settings that each call that starts a daemon reads.
enum class on_loss {
    error,
    degrade,
};
struct call_settings {
    const char *ssh;
    bool exec;
    std::uint32_t devices;
    int timeout_ms;
    int min_level;
    rpmem::on_loss on_loss;

    // Timeout of requests that start the daemon or prepare parts, which take longer than a flush. 0 means no limit.
    int session_timeout_ms() const { return timeout_ms > INT32_MAX / 3 ? INT32_MAX : 3 * timeout_ms; }
};

// Reads the settings. Returns NULL on success, otherwise a message about the invalid variable.
const char *read_settings(call_settings *to);

} // namespace rpmem
