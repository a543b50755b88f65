// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "message/control.hpp"

namespace rpmemd
{

// Roles of a client for a mirrored set, as bits.
enum role : unsigned {
    role_read = 1U << 0,
    role_write = 1U << 1,      // open the set as its writer, and grow it
    role_administer = 1U << 2, // create copies, and fence writers
};

// Roles of an identity for the sets whose names match a shell pattern.
struct grant {
    std::string identity;
    unsigned roles = 0;
    std::string pattern;
};

// Parses NAME ROLE[,ROLE ...] PATTERN. Throws std::invalid_argument.
grant parse_grant(const std::string &text);

// Rights of a client. Without grants every client may do everything.
class access
{
public:
    access() = default;
    access(const std::string &identity, const std::vector<grant> &grants);

    // Throws failure unless the client may send a request of this kind for the set.
    void check(replica::request::BodyCase kind, const std::string &set) const;

private:
    bool is_limited_ = false;
    std::string identity_;
    std::vector<grant> grants_;
};

} // namespace rpmemd
