// SPDX-License-Identifier: BSD-3-Clause
#include "settings.hpp"

#include <algorithm>

#include "base/range.hpp"
#include "base/text.hpp"
#include "failure.hpp"
#include "message/set_name.hpp"

namespace mirror
{

namespace
{

constexpr unsigned max_lanes = 1023;
constexpr unsigned max_depth = 65536;
constexpr unsigned max_timeout_ms = 3'600'000;
constexpr std::uint64_t max_reserved = std::uint64_t{64} << 40; // half of the addresses of a process on x86-64

[[noreturn]] void reject(const std::string &reason)
{
    throw failure(RPMA_MIRROR_E_INVAL, reason);
}

void check_copy(unsigned copy)
{
    if (copy >= replica::max_copies)
        reject("invalid copy number (0 to 15)");
}

} // namespace

std::uint32_t settings::target_copies() const
{
    std::uint32_t copies = 0;
    for (const target_settings &t : targets)
        copies |= 1U << t.copy;
    return copies;
}

const target_settings *settings::target_of(unsigned copy) const
{
    const auto found = std::ranges::find(targets, copy, &target_settings::copy);
    return found == targets.end() ? nullptr : &*found;
}

std::string settings::names_of(std::uint32_t copies) const
{
    std::string all;
    for (unsigned copy = 0; copy < replica::max_copies; ++copy) {
        if ((copies >> copy & 1) == 0)
            continue;
        const target_settings *const t = target_of(copy);
        all += (all.empty() ? "copy " : ", copy ") + std::to_string(copy) +
               (t == nullptr ? " (not in the set file)" : " (" + t->name() + ")");
    }
    return all;
}

std::string settings::admin_path() const
{
    return admin_socket && !local_path.empty() ? state_path + ".socket" : "";
}

void settings::set_local_copy(unsigned copy, const char *path, std::uint64_t bytes, const char *state)
{
    check_copy(copy);
    if (target_of(copy) != nullptr)
        reject("copy " + std::to_string(copy) + ": number already used by a target");
    if (bytes % replica::page_size != 0)
        reject("the length of the local copy is not a multiple of 4096");
    if (path == nullptr && bytes == 0)
        reject("anonymous memory requires a length");
    if (path != nullptr && *path == '\0')
        reject("the path of the local copy is empty");
    local_number = copy;
    local_path = path == nullptr ? "" : path;
    length = bytes;
    state_path = state != nullptr ? state : path != nullptr ? local_path + ".mirror" : "";
    has_local = true;
}

void settings::add_target(unsigned copy, const std::string &location, const std::string &set_name)
{
    check_copy(copy);
    if ((has_local && copy == local_number) || target_of(copy) != nullptr)
        reject("duplicate copy number " + std::to_string(copy));
    const std::size_t colon = location.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == location.size())
        reject("invalid target '" + location + "' (use ADDRESS:PORT)");
    if (location.find('@') != std::string::npos)
        reject("invalid target '" + location + "': user names are not supported (use ADDRESS:PORT)");
    target_settings created;
    created.copy = copy;
    created.address = location.substr(0, colon);
    created.port = location.substr(colon + 1);
    if (created.address.size() > 2 && created.address.front() == '[' && created.address.back() == ']')
        created.address = created.address.substr(1, created.address.size() - 2);
    if (!replica::is_port(created.port))
        reject("invalid target '" + location + "': invalid port (1 to 65535)");
    if (location.size() > 255)
        reject("invalid target '" + location + "' (use ADDRESS:PORT)");
    if (const char *const fault = replica::set_name_fault(set_name))
        reject(fault);
    created.set_name = set_name;
    targets.push_back(created);
}

void settings::set_lanes(unsigned count, unsigned operations)
{
    if (count < 1 || count > max_lanes)
        reject("invalid number of lanes (1 to 1023)");
    if (operations < 2 || operations > max_depth)
        reject("invalid depth of a lane (2 to 65536 operations)");
    lanes = count;
    depth = operations;
}

void settings::set_timeouts(unsigned operation, unsigned opening)
{
    if (operation < 1 || operation > max_timeout_ms || opening < 1 || opening > max_timeout_ms)
        reject("invalid timeout (1 to 3600000 milliseconds)");
    operation_ms = static_cast<int>(operation);
    open_ms = static_cast<int>(opening);
}

void settings::set_slow_limit(unsigned count, unsigned late_ms)
{
    if (count != 0 && (late_ms < 1 || late_ms > max_timeout_ms))
        reject("invalid time of a slow target (1 to 3600000 milliseconds)");
    slow_count = count;
    slow_ms = static_cast<int>(late_ms);
}

void settings::set_max_length(std::uint64_t bytes)
{
    if (bytes % replica::page_size != 0 || bytes > max_reserved)
        reject("invalid maximum length (a multiple of 4096, at most 64T)");
    max_length = bytes;
}

void settings::check() const
{
    if (!has_local)
        reject("local copy missing (add a line 'local', or call rpma_mirror_cfg_set_local_copy)");
    check_reader();
}

void settings::check_reader() const
{
    if (targets.empty())
        reject("target missing (add a line 'target', or call rpma_mirror_cfg_add_target)");
    if (key_file.empty())
        reject("key file missing (add a line 'key-file', or call rpma_mirror_cfg_set_key_file)");
}

limits limits_of(const rpma_mirror_resync_options *options)
{
    if (options == nullptr)
        return {};
    if (options->size < sizeof(*options) || options->flags != 0)
        reject("options: size not set, or unknown flags");
    return {options->bytes_per_second, options->progress, options->context};
}

} // namespace mirror
