// SPDX-License-Identifier: BSD-3-Clause
#include "message/set_name.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace replica
{

const char *set_name_fault(std::string_view name)
{
    if (name.empty())
        return "the poolset name is empty";
    if (name.size() > max_set_name_len)
        return "the poolset name is longer than 255 bytes";
    if (name.front() == '/')
        return "the poolset name is absolute (it must be relative to the poolset directory of the target)";
    for (const char c : name)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            return "the poolset name contains a control character";
    while (!name.empty()) {
        const auto slash = std::min(name.find('/'), name.size());
        if (text_before(name, slash) == "..")
            return "the poolset name contains '..' (it must stay beneath the poolset directory of the target)";
        name.remove_prefix(std::min(slash + 1, name.size()));
    }
    return nullptr;
}

} // namespace replica
