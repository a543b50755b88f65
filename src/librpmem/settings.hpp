// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace rpmem
{

// What is read from the environment when the library is loaded.
struct load_settings {
    int max_lanes;
    int queue_depth;
    int log_level; // -1 without a valid RPMEM_LOG_LEVEL
    char log_file[4096];
    // The command lines of RPMEM_CMD, separated by '|', are used in turn.
    char *commands;
};
const load_settings &settings();

// The next of the commands that start the daemon. Points into settings that stay; the length is without the separator.
struct daemon_command {
    const char *text;
    std::size_t length;
};
daemon_command next_command();

// What is read by each call that starts the daemon.
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

    // A login, the preparation of parts and the like take longer than a flush. 0: for ever.
    int session_timeout_ms() const { return timeout_ms > INT32_MAX / 3 ? INT32_MAX : 3 * timeout_ms; }
};

// NULL: *to is set. Otherwise which variable has a value that it cannot have.
const char *read_settings(call_settings *to);

} // namespace rpmem
