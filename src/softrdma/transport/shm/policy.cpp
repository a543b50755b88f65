// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/policy.hpp"

#include <cstdlib>
#include <string_view>

namespace softrdma::local
{

namespace
{

std::string_view variable(const char *name) noexcept
{
    const char *value = getenv(name);
    return value == nullptr ? std::string_view{} : value;
}

path_policy read_policy() noexcept
{
    // What a peer stores directly, the undo log of a simulated power cut would not see. The variable is asked: the
    // power cut may be armed later than this is called.
    if (variable("SOFTRDMA_TRUST") == "none" || !variable("SOFTRDMA_POWERCUT").empty())
        return path_policy::tcp;
    const auto path = variable("SOFTRDMA_PATH");
    if (path == "tcp")
        return path_policy::tcp;
    if (path == "descriptors")
        return path_policy::descriptors;
    return path == "local" ? path_policy::direct : path_policy::automatic;
}

} // namespace

path_policy policy() noexcept
{
    static const path_policy value = read_policy();
    return value;
}

} // namespace softrdma::local
