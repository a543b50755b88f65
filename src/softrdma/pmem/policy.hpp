// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/config.hpp"

namespace softrdma::pmem
{

// SOFTRDMA_NATIVE_VERBS=off: FLUSH and ATOMIC WRITE do not exist, as on a NIC without them.
inline bool native_verbs() noexcept
{
    return config::is(config::setting::native_verbs, config::switch_word::on);
}
// SOFTRDMA_READ_FLUSH=off: a READ does not make earlier stores durable.
inline bool read_flushes() noexcept
{
    return config::is(config::setting::read_flush, config::switch_word::on);
}
// SOFTRDMA_VOLATILE=reject: memory that cannot be made durable is rejected at registration for persistent FLUSH.
// Otherwise it is accepted, and the FLUSH only ensures visibility.
inline bool rejects_volatile() noexcept
{
    return config::is(config::setting::volatile_memory, config::volatile_word::reject);
}

} // namespace softrdma::pmem
