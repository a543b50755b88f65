// SPDX-License-Identifier: BSD-3-Clause
// The decoder of RoCE packets, which any sender can address to UDP port 4791.
#include "wire/cm_mad.hpp"
#include "wire/roce.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

using namespace softrdma;

// A message of the connection manager keeps its fields; only reserved bits are lost.
static void fuzz_message(std::span<const std::byte> bytes)
{
    roce::cm_mad m;
    roce::cm_mad same;
    roce::ip_header header;
    private_data data;
    if (!roce::decode(bytes, m))
        return;
    const roce::mad_bytes again = roce::encode(m);
    if (!roce::decode(again, same) || roce::encode(same) != again || same.local_id != m.local_id || same.qpn != m.qpn ||
            same.psn != m.psn || same.service_id != m.service_id || same.data.bytes != m.data.bytes ||
            same.remote_id != m.remote_id || same.reason != m.reason || same.qkey != m.qkey)
        abort();
    if (!roce::is_request(m.attribute) || !roce::split_header(m.data, header, data))
        return;
    roce::ip_header same_header;
    private_data same_data;
    if (!roce::split_header(roce::with_header(header, data, m.data.size), same_header, same_data) ||
            header.v4 != same_header.v4 || header.source != same_header.source ||
            header.destination != same_header.destination || data.bytes != same_data.bytes)
        abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::span<const std::byte> input{reinterpret_cast<const std::byte *>(data), size};
    datagram d;
    if (roce::decode_datagram(input, d) && roce::is_management(d))
        fuzz_message(d.payload);
    packet p;
    if (!roce::decode(input, p))
        return 0;
    const roce::transport_headers again = roce::encode(p, p.payload.size());
    if (again.size + p.payload.size() + again.padding + sizeof(roce::invariant_crc) > size)
        abort();
    packet same;
    std::vector<std::byte> bytes(again.bytes.begin(), again.bytes.begin() + static_cast<std::ptrdiff_t>(again.size));
    bytes.insert(bytes.end(), p.payload.begin(), p.payload.end());
    bytes.resize(bytes.size() + again.padding + sizeof(roce::invariant_crc));
    if (!roce::decode(bytes, same) || same.op != p.op || same.psn != p.psn || same.dest_qpn != p.dest_qpn ||
            !std::ranges::equal(same.payload, p.payload))
        abort();
    return 0;
}
