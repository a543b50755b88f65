// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

// The XXH3-128 of bytes in its canonical form, of canonical_hash_size bytes, by what each processor of the architecture
// has, and by more. A file that is compiled for more must not share inline functions with others: hence these types.
namespace replica
{

inline constexpr std::size_t canonical_hash_size = 16;

void canonical_hash_plain(const void *bytes, std::size_t size, void *to);
void canonical_hash_avx2(const void *bytes, std::size_t size, void *to);

} // namespace replica
