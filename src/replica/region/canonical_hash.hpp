// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

// XXH3-128 hash in canonical form, of canonical_hash_size bytes: one version for the baseline of the architecture, one
// for AVX2. The interface uses plain types, because the AVX2 file must not share inline functions with other files.
namespace replica
{

inline constexpr std::size_t canonical_hash_size = 16;

void canonical_hash_plain(const void *bytes, std::size_t size, void *to);
void canonical_hash_avx2(const void *bytes, std::size_t size, void *to);

} // namespace replica
