// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench
{

std::size_t resident_bytes();

std::uint64_t hash_bytes(const void *data, std::size_t len);

} // namespace bench
