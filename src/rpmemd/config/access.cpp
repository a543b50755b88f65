// SPDX-License-Identifier: BSD-3-Clause
#include "config/access.hpp"

#include <algorithm>
#include <array>
#include <fnmatch.h>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "config/failure.hpp"

namespace rpmemd
{

namespace
{

struct role_name {
    const char *name;
    role value;
};
constexpr std::array<role_name, 3> role_names{
        {{"read", role_read}, {"write", role_write}, {"administer", role_administer}}};

unsigned parse_roles(const std::string &text)
{
    unsigned roles = 0;
    std::istringstream from(text + ',');
    for (std::string name; std::getline(from, name, ',');) {
        const auto *const found = std::ranges::find(role_names, name, &role_name::name);
        if (found == role_names.end())
            throw std::invalid_argument("invalid role '" + name + "': must be read, write or administer");
        roles |= found->value;
    }
    return roles;
}

// Returns the roles that permit a request, each of which is sufficient. A writer may also read.
unsigned permitting_roles(replica::request::BodyCase kind)
{
    using request = replica::request;
    switch (kind) {
    case request::kGetState:
        return role_read | role_write | role_administer;
    case request::kRead:
    case request::kHashImage:
    case request::kAttachReader:
        return role_read | role_write;
    case request::kPrepare:
    case request::kCommit:
        return role_write | role_administer;
    case request::kAttach:
    case request::kResize:
    case request::kHash:
    case request::kCursor:
        return role_write;
    default:
        return role_administer;
    }
}

std::string list_roles(unsigned roles)
{
    std::string text;
    for (const auto &[name, value] : role_names)
        if ((roles & value) != 0)
            text += (text.empty() ? "" : " or ") + std::string(name);
    return text;
}

} // namespace

grant parse_grant(const std::string &text)
{
    std::istringstream from(text);
    const std::vector<std::string> words(std::istream_iterator<std::string>(from), {});
    if (words.size() != 3)
        throw std::invalid_argument("invalid value '" + text + "': must be NAME ROLE[,ROLE ...] PATTERN");
    return {words[0], parse_roles(words[1]), words[2]};
}

access::access(const std::string &identity, const std::vector<grant> &grants)
    : is_limited_(!grants.empty()), identity_(identity)
{
    std::ranges::copy_if(grants, std::back_inserter(grants_), [&](const grant &g) { return g.identity == identity; });
}

void access::check(replica::request::BodyCase kind, const std::string &set) const
{
    const unsigned permitting = permitting_roles(kind);
    if (is_limited_ && std::ranges::none_of(grants_, [&](const grant &g) {
            return (g.roles & permitting) != 0 && fnmatch(g.pattern.c_str(), set.c_str(), 0) == 0;
        }))
        throw failure(EACCES, "set '" + set + "': identity '" + identity_ + "' does not have the role " +
                                      list_roles(permitting) + " (see identity in rpmemd.conf on the target)");
}

} // namespace rpmemd
