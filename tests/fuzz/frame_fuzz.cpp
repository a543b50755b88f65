// SPDX-License-Identifier: BSD-3-Clause
// The parsers that read what strangers send: frames, and the messages of the connection manager inside them.
#include "net/cm_message.hpp"
#include "net/frame.hpp"

#include <cstdint>
#include <cstdlib>

using namespace softrdma;
using namespace softrdma::net;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::span<const std::byte> input{reinterpret_cast<const std::byte *>(data), size};
    const auto length = frame_size(input);
    if (length && *length > max_frame)
        abort();
    packet p;
    if (decode(input, p) && (p.payload.size() > size || p.payload.size() > max_segment))
        abort();
    cm_handshake handshake;
    if (decode(input, handshake) && handshake.data.size > handshake.data.bytes.size())
        abort();
    cm_rejection rejection;
    if (decode(input, rejection) && rejection.data.size > rejection.data.bytes.size())
        abort();
    return 0;
}
