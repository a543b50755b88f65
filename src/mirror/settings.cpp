// SPDX-License-Identifier: BSD-3-Clause
#include "settings.hpp"

#include <algorithm>

#include "failure.hpp"
#include "range.hpp"
#include "set_name.hpp"
#include "text.hpp"

namespace mirror
{

namespace
{

constexpr unsigned most_lanes = 1023;
constexpr unsigned most_depth = 65536;
constexpr unsigned longest_ms = 3'600'000;

[[noreturn]] void refuse(const std::string &why)
{
    throw failure(RPMA_MIRROR_E_INVAL, why);
}

void check_copy(unsigned copy)
{
    if (copy >= replica::max_copies)
        refuse("a copy has a number from 0 to 15");
}

} // namespace

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

void settings::set_home(unsigned copy, const char *path, std::uint64_t bytes, const char *state)
{
    check_copy(copy);
    if (target_of(copy) != nullptr)
        refuse("copy " + std::to_string(copy) + " is that of a target");
    if (bytes % replica::page_size != 0)
        refuse("the length of the home copy is no multiple of 4096");
    if (path == nullptr && bytes == 0)
        refuse("anonymous memory needs a length");
    if (path != nullptr && *path == '\0')
        refuse("the path of the home copy is empty");
    home_copy = copy;
    home_path = path == nullptr ? "" : path;
    length = bytes;
    state_path = state != nullptr ? state : path != nullptr ? home_path + ".mirror" : "";
    has_home = true;
}

void settings::add_target(unsigned copy, const std::string &place, const std::string &set_name)
{
    check_copy(copy);
    if ((has_home && copy == home_copy) || target_of(copy) != nullptr)
        refuse("there are two copies " + std::to_string(copy));
    const std::size_t colon = place.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == place.size())
        refuse("write ADDRESS:PORT instead of '" + place + "'");
    if (place.find('@') != std::string::npos)
        refuse("write ADDRESS:PORT instead of '" + place + "': a target of a mirrored set has no user");
    target_settings made;
    made.copy = copy;
    made.address = place.substr(0, colon);
    made.port = place.substr(colon + 1);
    if (made.address.size() > 2 && made.address.front() == '[' && made.address.back() == ']')
        made.address = made.address.substr(1, made.address.size() - 2);
    if (!replica::is_port(made.port))
        refuse("the port of '" + place + "' is not a number from 1 to 65535");
    if (place.size() > 255)
        refuse("write ADDRESS:PORT instead of '" + place + "'");
    if (const char *const fault = replica::set_name_fault(set_name))
        refuse(fault);
    made.set_name = set_name;
    targets.push_back(made);
}

void settings::set_lanes(unsigned count, unsigned operations)
{
    if (count < 1 || count > most_lanes)
        refuse("there are 1 to 1023 lanes");
    if (operations < 2 || operations > most_depth)
        refuse("a lane has 2 to 65536 operations under way");
    lanes = count;
    depth = operations;
}

void settings::set_timeouts(unsigned operation, unsigned opening)
{
    if (operation < 1 || operation > longest_ms || opening < 1 || opening > longest_ms)
        refuse("a timeout has 1 to 3600000 milliseconds");
    operation_ms = static_cast<int>(operation);
    open_ms = static_cast<int>(opening);
}

void settings::check() const
{
    if (!has_home)
        refuse("the set has no home copy: see rpma_mirror_cfg_set_local_copy");
    if (targets.empty())
        refuse("the set has no target: see rpma_mirror_cfg_add_target");
    if (key_file.empty())
        refuse("the file with the key of the targets is missing: see rpma_mirror_cfg_set_key_file");
}

limits limits_of(const rpma_mirror_resync_options *options)
{
    if (options == nullptr)
        return {};
    if (options->size < sizeof(*options) || options->flags != 0)
        refuse("the options do not tell their size, or have unknown flags");
    return {options->bytes_per_second, options->progress, options->context};
}

} // namespace mirror
