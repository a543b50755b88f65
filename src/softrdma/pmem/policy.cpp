// SPDX-License-Identifier: BSD-3-Clause
#include "pmem/policy.hpp"
#include "base/config.hpp"

namespace softrdma::pmem
{

bool native_verbs() noexcept
{
    return config::is(config::setting::native_verbs, config::switch_word::on);
}

bool read_flushes() noexcept
{
    return config::is(config::setting::read_flush, config::switch_word::on);
}

bool refuses_volatile() noexcept
{
    return config::is(config::setting::volatile_memory, config::volatile_word::reject);
}

} // namespace softrdma::pmem
