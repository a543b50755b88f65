// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "failure.hpp"

// Messages of the general-purpose server persistency method, encoded like those of librpma's examples and fio's
// engines: a key byte and 8 bytes in little-endian order for each field. All fields are required.
namespace bench::gpspm_wire
{

struct request {
    std::uint64_t offset, length, op_context;
};

constexpr std::size_t request_size = 27;
constexpr std::size_t response_size = 9;

inline void put(std::byte *at, std::uint8_t key, std::uint64_t value)
{
    at[0] = std::byte{key};
    std::memcpy(at + 1, &value, sizeof value);
}

inline std::uint64_t get(const std::byte *at, std::uint8_t key)
{
    if (at[0] != std::byte{key}) [[unlikely]]
        throw failure("malformed message of the flush protocol");
    std::uint64_t value;
    std::memcpy(&value, at + 1, sizeof value);
    return value;
}

inline void encode_request(std::byte *at, const request &r)
{
    put(at, 0x09, r.offset);
    put(at + 9, 0x11, r.length);
    put(at + 18, 0x19, r.op_context);
}
inline request decode_request(const std::byte *at)
{
    return {get(at, 0x09), get(at + 9, 0x11), get(at + 18, 0x19)};
}
inline void encode_response(std::byte *at, std::uint64_t op_context)
{
    put(at, 0x09, op_context);
}
inline std::uint64_t decode_response(const std::byte *at)
{
    return get(at, 0x09);
}

} // namespace bench::gpspm_wire
