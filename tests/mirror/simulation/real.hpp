// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <dlfcn.h>

#include "world.hpp"

namespace simulation
{

// Returns whether the caller is a thread of the simulation.
inline bool inside()
{
    return world::instance != nullptr && world::instance->current() != nullptr;
}

// Returns the function of the C library that the function with the same name in this program hides.
template<class F>
F *real(const char *name)
{
    return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name));
}

} // namespace simulation

#define REAL(name)                                                                                                     \
    ([] {                                                                                                              \
        static auto *const found = simulation::real<decltype(name)>(#name);                                            \
        return found;                                                                                                  \
    }())
