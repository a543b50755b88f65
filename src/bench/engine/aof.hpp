// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "gpspm.hpp"

// Messages of an append-only file whose server persists, encoded like those of fio's engines. The request contains the
// location of the data and of the pointer to its end; the response is that of gpspm.
namespace bench::aof_wire
{

struct request {
    std::uint64_t offset, length, pointer_offset, op_context;
};

constexpr std::size_t request_size = 36;
constexpr std::size_t pointer_size = sizeof(std::uint64_t);

inline void encode_request(std::byte *at, const request &r)
{
    gpspm_wire::put(at, 0x09, r.offset);
    gpspm_wire::put(at + 9, 0x11, r.length);
    gpspm_wire::put(at + 18, 0x19, r.pointer_offset);
    gpspm_wire::put(at + 27, 0x21, r.op_context);
}
inline request decode_request(const std::byte *at)
{
    using gpspm_wire::get;
    return {get(at, 0x09), get(at + 9, 0x11), get(at + 18, 0x19), get(at + 27, 0x21)};
}

} // namespace bench::aof_wire
