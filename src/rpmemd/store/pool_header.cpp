// SPDX-License-Identifier: BSD-3-Clause
#include "store/pool_header.hpp"

#include <algorithm>
#include <elf.h>
#include <sys/types.h>

#include "endian.hpp"

namespace rpmemd
{

namespace
{

// Offsets in the page, in bytes.
constexpr std::size_t at_features = 12;
constexpr std::size_t at_uuids = 24;
constexpr std::size_t at_creation_time = 120;
constexpr std::size_t at_arch_flags = 128;
constexpr std::size_t at_shutdown_state = 4024;
constexpr std::size_t at_checksum = 4088;
constexpr std::size_t shutdown_state_size = 64;
constexpr std::size_t half_page = 2048;

// Fletcher-64 checksum of 32-bit little-endian words. Words at offset `zero_from` and above count as zero.
std::uint64_t checksum(std::span<const unsigned char> bytes, std::size_t zero_from)
{
    std::uint32_t low = 0, high = 0;
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint32_t)) {
        low += at < zero_from ? load_le<std::uint32_t>(&bytes[at]) : 0;
        high += low;
    }
    return std::uint64_t{high} << 32 | low;
}

std::uint64_t checksum_of_page(std::span<const unsigned char, header_size> page)
{
    const auto incompat = load_le<std::uint32_t>(&page[at_features + 4]);
    return checksum(page, (incompat & feature_checksum_2k) != 0 ? half_page : at_checksum);
}

template<class Header, class F>
void each_array(Header &header, F f)
{
    f(header.signature, 0);
    f(header.poolset_uuid, at_uuids);
    f(header.part_uuid, at_uuids + 16);
    f(header.prev_part_uuid, at_uuids + 32);
    f(header.next_part_uuid, at_uuids + 48);
    f(header.prev_replica_uuid, at_uuids + 64);
    f(header.next_replica_uuid, at_uuids + 80);
    f(header.arch_flags, at_arch_flags);
}

shutdown_state decode_shutdown_state(std::span<const unsigned char> bytes)
{
    shutdown_state state;
    state.unsafe_count = load_le<std::uint64_t>(&bytes[0]);
    state.device_id_checksum = load_le<std::uint64_t>(&bytes[8]);
    state.dirty = bytes[16] != 0;
    state.checksum_matches =
            load_le<std::uint64_t>(&bytes[56]) == checksum(bytes.first(shutdown_state_size), shutdown_state_size - 8);
    return state;
}

} // namespace

bool is_zero(std::span<const unsigned char> bytes)
{
    return std::ranges::all_of(bytes, [](unsigned char byte) { return byte == 0; });
}

std::array<unsigned char, 16> native_arch_flags()
{
    // Alignment minus one of each C type, in four bits each, from char in the lowest to void * in the highest bits.
    constexpr std::array<std::size_t, 11> alignments = {alignof(char), alignof(short), alignof(int), alignof(long),
            alignof(long long), alignof(std::size_t), alignof(off_t), alignof(float), alignof(double),
            alignof(long double), alignof(void *)};
    std::uint64_t descriptor = 0;
    for (std::size_t i = 0; i < alignments.size(); ++i)
        descriptor |= (alignments[i] - 1) << (4 * i);
    std::array<unsigned char, 16> flags{};
    store_le(&flags[0], descriptor);
    flags[8] = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    flags[9] = ELFDATA2LSB;
#if defined(__x86_64__)
    constexpr std::uint16_t machine = EM_X86_64;
#elif defined(__aarch64__)
    constexpr std::uint16_t machine = EM_AARCH64;
#else
#error "pool header: unsupported architecture"
#endif
    store_le(&flags[14], machine);
    return flags;
}

header_page encode(const pool_header &header, header_page page)
{
    each_array(header, [&page](const auto &bytes, std::size_t at) {
        std::ranges::copy(bytes, page.begin() + static_cast<std::ptrdiff_t>(at));
    });
    store_le(&page[8], header.major);
    store_le(&page[at_features], header.compat_features);
    store_le(&page[at_features + 4], header.incompat_features);
    store_le(&page[at_features + 8], header.ro_compat_features);
    store_le(&page[at_creation_time], header.creation_time);
    store_le(&page[at_checksum], checksum_of_page(page));
    return page;
}

pool_header decode(std::span<const unsigned char, header_size> page)
{
    pool_header header;
    each_array(header,
            [&page](auto &bytes, std::size_t at) { std::ranges::copy(page.subspan(at, bytes.size()), bytes.begin()); });
    header.major = load_le<std::uint32_t>(&page[8]);
    header.compat_features = load_le<std::uint32_t>(&page[at_features]);
    header.incompat_features = load_le<std::uint32_t>(&page[at_features + 4]);
    header.ro_compat_features = load_le<std::uint32_t>(&page[at_features + 8]);
    header.creation_time = load_le<std::uint64_t>(&page[at_creation_time]);
    header.shutdown = decode_shutdown_state(page.subspan(at_shutdown_state, shutdown_state_size));
    return header;
}

bool checksum_matches(std::span<const unsigned char, header_size> page)
{
    return load_le<std::uint64_t>(&page[at_checksum]) == checksum_of_page(page);
}

void set_attributes(pool_header &header, const pool_attributes &attributes)
{
    header.signature = attributes.signature;
    header.major = attributes.major;
    header.compat_features = attributes.compat_features;
    header.incompat_features = attributes.incompat_features;
    header.ro_compat_features = attributes.ro_compat_features;
    header.poolset_uuid = attributes.poolset_uuid;
    header.next_replica_uuid = attributes.next_uuid;
    header.prev_replica_uuid = attributes.prev_uuid;
    header.arch_flags = attributes.user_flags;
}

pool_attributes attributes_of(const pool_header &first)
{
    pool_attributes attributes;
    attributes.signature = first.signature;
    attributes.major = first.major;
    attributes.compat_features = first.compat_features;
    attributes.incompat_features = first.incompat_features;
    attributes.ro_compat_features = first.ro_compat_features;
    attributes.poolset_uuid = first.poolset_uuid;
    attributes.first_uuid = first.part_uuid;
    attributes.next_uuid = first.next_replica_uuid;
    attributes.prev_uuid = first.prev_replica_uuid;
    attributes.user_flags = first.arch_flags;
    return attributes;
}

} // namespace rpmemd
