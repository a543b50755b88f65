// SPDX-License-Identifier: BSD-3-Clause
// The decoder of RoCE packets, which any sender can address to UDP port 4791.
#include "wire/roce.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

using namespace softrdma;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::span<const std::byte> input{reinterpret_cast<const std::byte *>(data), size};
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
