// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <netdb.h>

namespace bench
{

template<auto Destroy>
struct destroyer {
    void operator()(auto *object) const { (void)Destroy(object); }
};
// Owns an object of a C library and destroys it with the function of the library.
template<class T, auto Destroy>
using owner = std::unique_ptr<T, destroyer<Destroy>>;

using addrinfo_owner = owner<addrinfo, freeaddrinfo>;

} // namespace bench
