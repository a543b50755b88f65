// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <span>

// Pool header in the first page of a part, in the on-media format of PMDK.
namespace rpmemd
{

using uuid = std::array<unsigned char, 16>;

constexpr std::size_t header_size = 4096;
using header_page = std::array<unsigned char, header_size>;

enum incompat_feature : std::uint32_t {
    feature_single_header = 0x1,
    feature_checksum_2k = 0x2,
    feature_shutdown_state = 0x4
};

struct pool_attributes {
    std::array<unsigned char, 8> signature{};
    std::uint32_t major = 0;
    std::uint32_t compat_features = 0;
    std::uint32_t incompat_features = 0;
    std::uint32_t ro_compat_features = 0;
    uuid poolset_uuid{};
    uuid first_uuid{};
    uuid next_uuid{}; // next and previous replica
    uuid prev_uuid{};
    std::array<unsigned char, 16> user_flags{};

    bool operator==(const pool_attributes &) const = default;
};

struct shutdown_state {
    std::uint64_t unsafe_count = 0;
    std::uint64_t device_id_checksum = 0;
    bool dirty = false;
    bool checksum_matches = true;

    bool operator==(const shutdown_state &) const = default;
};

struct pool_header {
    std::array<unsigned char, 8> signature{};
    std::uint32_t major = 0;
    std::uint32_t compat_features = 0;
    std::uint32_t incompat_features = 0;
    std::uint32_t ro_compat_features = 0;
    uuid poolset_uuid{};
    uuid part_uuid{};
    uuid prev_part_uuid{};
    uuid next_part_uuid{};
    uuid prev_replica_uuid{};
    uuid next_replica_uuid{};
    std::uint64_t creation_time = 0; // seconds
    std::array<unsigned char, 16> arch_flags{};
    shutdown_state shutdown; // read-only: encode() does not write it

    bool operator==(const pool_header &) const = default;
};

bool is_zero(std::span<const unsigned char> bytes);
std::array<unsigned char, 16> native_arch_flags();

// Returns the page of a header, with its checksum. Other bytes, such as the shutdown state, are copied from `old`.
header_page encode(const pool_header &header, header_page old = {});

// Reads the fields without checking the checksum.
pool_header decode(std::span<const unsigned char, header_size> page);

bool checksum_matches(std::span<const unsigned char, header_size> page);

void set_attributes(pool_header &header, const pool_attributes &attributes);
pool_attributes attributes_of(const pool_header &first);

} // namespace rpmemd
