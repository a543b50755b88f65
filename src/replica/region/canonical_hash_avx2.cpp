// SPDX-License-Identifier: BSD-3-Clause
#include "region/canonical_hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

static_assert(sizeof(XXH128_canonical_t) == replica::canonical_hash_size);

void replica::canonical_hash_avx2(const void *bytes, std::size_t size, void *to)
{
    XXH128_canonicalFromHash(static_cast<XXH128_canonical_t *>(to), XXH3_128bits(bytes, size));
}
