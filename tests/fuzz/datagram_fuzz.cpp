// SPDX-License-Identifier: BSD-3-Clause
// The decoders of datagrams, which any sender can address to a datagram queue pair, and of the header that a program
// passes.
#include "wire/roce.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

using namespace softrdma;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::span<const std::byte> input{reinterpret_cast<const std::byte *>(data), size};
    datagram d;
    if (decode(input, d)) {
        if (d.payload.size() > max_datagram_payload || d.payload.size() >= size)
            abort();
        const datagram_headers again = encode(d);
        if (again.size + d.payload.size() != size ||
                !std::equal(again.bytes.begin(), again.bytes.begin() + static_cast<std::ptrdiff_t>(again.size),
                        input.begin()))
            abort();
    }
    if (size < network_header_size)
        return 0;
    network_header header;
    std::copy_n(input.begin(), header.size(), header.begin());
    network_address source;
    network_address destination;
    if (!parse(header, source, destination))
        return 0;
    const network_header created = header_of(source, destination, size);
    network_address same_source;
    network_address same_destination;
    if (!parse(created, same_source, same_destination) || same_source != source || same_destination != destination)
        abort();
    const bool is_v4 = header[0] >> 4 != std::byte{6};
    if (is_v4 && (!parse(roce::header_of({source, destination, 0}, size % UINT8_MAX), same_source, same_destination) ||
                         same_source != source || same_destination != destination))
        abort();
    return 0;
}
