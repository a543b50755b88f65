// SPDX-License-Identifier: BSD-3-Clause
#include "message/lane_message.hpp"

#include "endian.hpp"

namespace replica
{

namespace
{

unsigned char *raw(std::byte *at)
{
    return reinterpret_cast<unsigned char *>(at);
}

const unsigned char *raw(const std::byte *at)
{
    return reinterpret_cast<const unsigned char *>(at);
}

bool is_kind(std::uint32_t kind)
{
    return kind == static_cast<std::uint32_t>(lane_request_kind::flush) ||
           kind == static_cast<std::uint32_t>(lane_request_kind::deep_flush);
}

} // namespace

std::size_t encode(const lane_request &r, std::byte *to)
{
    store_le(raw(to), static_cast<std::uint32_t>(r.kind));
    store_le(raw(to + 4), r.count);
    store_le(raw(to + 8), r.sequence);
    std::byte *at = to + lane_request_header_size;
    for (std::uint32_t i = 0; i < r.count; ++i, at += 16) {
        store_le(raw(at), r.ranges[i].offset);
        store_le(raw(at + 8), r.ranges[i].length);
    }
    return static_cast<std::size_t>(at - to);
}

std::size_t encode(const lane_response &a, std::byte *to)
{
    store_le(raw(to), static_cast<std::uint32_t>(a.kind));
    store_le(raw(to + 4), static_cast<std::uint32_t>(a.error));
    store_le(raw(to + 8), a.sequence);
    return lane_response_size;
}

bool decode(std::span<const std::byte> bytes, lane_request &to)
{
    if (bytes.size() < lane_request_header_size)
        return false;
    const auto kind = load_le<std::uint32_t>(raw(bytes.data()));
    to.count = load_le<std::uint32_t>(raw(bytes.data() + 4));
    to.sequence = load_le<std::uint64_t>(raw(bytes.data() + 8));
    if (!is_kind(kind) || to.count > max_ranges || bytes.size() != lane_request_header_size + 16 * to.count)
        return false;
    to.kind = static_cast<lane_request_kind>(kind);
    const std::byte *at = bytes.data() + lane_request_header_size;
    for (std::uint32_t i = 0; i < to.count; ++i, at += 16)
        to.ranges[i] = {load_le<std::uint64_t>(raw(at)), load_le<std::uint64_t>(raw(at + 8))};
    return true;
}

bool decode(std::span<const std::byte> bytes, lane_response &to)
{
    if (bytes.size() != lane_response_size)
        return false;
    const auto kind = load_le<std::uint32_t>(raw(bytes.data()));
    const auto error = load_le<std::uint32_t>(raw(bytes.data() + 4));
    to.sequence = load_le<std::uint64_t>(raw(bytes.data() + 8));
    if (!is_kind(kind) || error >= 4096)
        return false;
    to.kind = static_cast<lane_request_kind>(kind);
    to.error = static_cast<int>(error);
    return true;
}

} // namespace replica
