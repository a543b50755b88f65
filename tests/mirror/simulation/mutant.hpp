// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>
#include <cstring>

// Returns whether this fault is active. mutants.py inserts the calls.
inline bool is_mutant(const char *name)
{
    static const char *const chosen = std::getenv("RPMA_MIRROR_MUTANT");
    return chosen != nullptr && std::strcmp(chosen, name) == 0;
}
