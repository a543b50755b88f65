// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <type_traits>

namespace replica
{

// Attributes of a pool, set by its user and stored in the pool header of each part.
struct pool_attributes {
    char signature[8]{};
    std::uint32_t major = 0;
    std::uint32_t compat_features = 0;
    std::uint32_t incompat_features = 0;
    std::uint32_t ro_compat_features = 0;
    unsigned char poolset_uuid[16]{};
    unsigned char uuid[16]{};
    unsigned char next_uuid[16]{};
    unsigned char prev_uuid[16]{};
    unsigned char user_flags[16]{};
};
static_assert(sizeof(pool_attributes) == 104 && std::has_unique_object_representations_v<pool_attributes>);

// Returns whether all attributes are zero, which means that the pool has no header.
inline bool is_zero(const pool_attributes &attributes)
{
    unsigned sum = 0;
    for (std::size_t i = 0; i < sizeof(attributes); ++i)
        sum |= reinterpret_cast<const unsigned char *>(&attributes)[i];
    return sum == 0;
}

} // namespace replica
