// SPDX-License-Identifier: BSD-3-Clause
#include "pmem/policy.hpp"

#include "environment.hpp"

namespace softrdma::pmem
{

bool native_verbs() noexcept
{
    static const bool value = !environment::is("SOFTRDMA_NATIVE", "off");
    return value;
}

bool read_flushes() noexcept
{
    static const bool value = !environment::is("SOFTRDMA_READ_FLUSH", "off");
    return value;
}

bool refuses_volatile() noexcept
{
    static const bool value = environment::is("SOFTRDMA_VOLATILE", "refuse");
    return value;
}

} // namespace softrdma::pmem
