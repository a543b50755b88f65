// SPDX-License-Identifier: BSD-3-Clause
#include "settings.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <unistd.h>

#include "environment.hpp"
#include "message/control.hpp"

namespace rpmem
{

namespace
{

constexpr int default_lanes = 64;
constexpr int default_depth = 50;
constexpr int default_timeout_ms = 10000;

load_settings loaded;
std::atomic<unsigned> turn;

// Appends the process ID to a path that ends with '-'.
void load_log_file()
{
    const char *const path = getenv("RPMEM_LOG_FILE");
    if (path == nullptr || std::strlen(path) + 12 > sizeof(loaded.log_file))
        return;
    const std::size_t length = std::strlen(path);
    if (length > 0 && path[length - 1] == '-')
        std::snprintf(loaded.log_file, sizeof(loaded.log_file), "%s%d", path, static_cast<int>(getpid()));
    else
        std::memcpy(loaded.log_file, path, length + 1);
}

[[gnu::constructor]] void load()
{
    loaded.max_lanes = environment::number("RPMEM_MAX_NLANES", default_lanes, 1, INT_MAX);
    loaded.queue_depth = environment::number("RPMEM_WORK_QUEUE_SIZE", default_depth, INT_MIN, INT_MAX);
    loaded.log_level = environment::number("RPMEM_LOG_LEVEL", -1, 0, 4);
    load_log_file();
    const char *const commands = getenv("RPMEM_CMD");
    loaded.commands = commands == nullptr ? nullptr : strdup(commands);
}

// Reads a number; *to is the fallback if the variable is unset or invalid. Returns false if it is invalid.
bool read_number(const char *name, int fallback, int min, int max, int *to)
{
    *to = environment::number(name, min - 1, min, max);
    if (*to >= min)
        return true;
    const char *const text = getenv(name);
    *to = fallback;
    return text == nullptr || *text == '\0';
}

// Returns the allowed devices: hardware unless RPMEM_ENABLE_VERBS is 0, software unless RPMEM_ENABLE_SOCKETS is 0.
std::uint32_t read_devices()
{
    const bool hardware = environment::number("RPMEM_ENABLE_VERBS", 1, INT_MIN, INT_MAX) != 0;
    const bool software = environment::number("RPMEM_ENABLE_SOCKETS", 1, INT_MIN, INT_MAX) != 0;
    return (hardware ? replica::device_hardware : 0U) | (software ? replica::device_software : 0U);
}

} // namespace

const load_settings &settings()
{
    return loaded;
}

std::string next_command()
{
    std::string_view left = loaded.commands == nullptr ? "" : loaded.commands;
    if (left.empty())
        return "rpmemd";
    const auto count = static_cast<unsigned>(std::count(left.begin(), left.end(), '|')) + 1;
    for (unsigned skip = turn.fetch_add(1, std::memory_order_relaxed) % count; skip > 0; --skip)
        left.remove_prefix(left.find('|') + 1);
    return std::string(left.substr(0, left.find('|')));
}

const char *read_settings(call_settings *to)
{
    const char *const ssh = getenv("RPMEM_SSH");
    to->ssh = ssh == nullptr || *ssh == '\0' ? "ssh" : ssh;
    const char *const transport = getenv("RPMEM_TRANSPORT");
    to->exec = environment::is("RPMEM_TRANSPORT", "exec");
    if (transport != nullptr && *transport != '\0' && !to->exec && std::strcmp(transport, "ssh") != 0)
        return "RPMEM_TRANSPORT: invalid value (use ssh or exec)";
    to->devices = read_devices();
    if (!read_number("RPMEM_OP_TIMEOUT_MS", default_timeout_ms, 0, INT_MAX, &to->timeout_ms))
        return "RPMEM_OP_TIMEOUT_MS: invalid value (use milliseconds; 0 means no limit)";
    if (!read_number("RPMEM_MIN_LEVEL", 0, 0, 4, &to->min_level))
        return "RPMEM_MIN_LEVEL: invalid value (use a level from 0 to 4)";
    const char *const loss = getenv("RPMEM_ON_LOSS");
    to->on_loss = environment::is("RPMEM_ON_LOSS", "degrade") ? on_loss::degrade : on_loss::error;
    if (loss != nullptr && *loss != '\0' && to->on_loss == on_loss::error && std::strcmp(loss, "error") != 0)
        return "RPMEM_ON_LOSS: invalid value (use error or degrade)";
    return nullptr;
}

} // namespace rpmem
