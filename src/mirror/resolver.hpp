// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <netdb.h>

#include "base/clock.hpp"
#include "settings.hpp"

namespace mirror
{

struct address_info_deleter {
    void operator()(addrinfo *info) const { freeaddrinfo(info); }
};
using address_info = std::unique_ptr<addrinfo, address_info_deleter>;

// Returns the addresses of a target. A name server can be silent for longer than the deadline, so a thread asks it that
// can outlast the call. Throws failure: E_TIMEOUT, or E_CONNECTION if the name has no address.
address_info resolve(const target_settings &to, const replica::deadline &until);

} // namespace mirror
