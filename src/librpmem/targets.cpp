// SPDX-License-Identifier: BSD-3-Clause
#include "targets.hpp"

#include <algorithm>
#include <cerrno>

#include "base/text.hpp"
#include "failure.hpp"

namespace rpmem
{

std::string replica_name(std::string_view target, const char *set_name)
{
    if (target == "local:")
        target = "this machine";
    return std::string("replica ") + set_name + " on " + std::string(target);
}

int target_list::parse(const char *text)
{
    for (std::string_view rest = text;;) {
        const std::size_t end = rest.find(',');
        const std::string_view one = replica::text_before(rest, std::min(end, rest.size()));
        if (count == max_targets)
            return fail(EINVAL, "%s: more than %zu targets", text, max_targets);
        if (std::find(texts, texts + count, one) != texts + count)
            return fail(EINVAL, "%s: duplicate target", text);
        if (const char *const fault = replica::parse_target(one, targets[count]))
            return fail(EINVAL, "%s: %s", text, fault);
        texts[count++] = one;
        if (end == rest.npos)
            return 0;
        rest = replica::text_after(rest, end + 1);
    }
}

} // namespace rpmem
