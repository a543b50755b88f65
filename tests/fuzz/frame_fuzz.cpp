// SPDX-License-Identifier: BSD-3-Clause
// The parsers that read what unknown peers send: frames, and the messages of the connection manager inside them.
#include "wire/cm_message.hpp"
#include "wire/frame.hpp"

#include <cstdint>
#include <cstdlib>
#include <vector>

using namespace softrdma;

// Reads a stream that begins with `start` and arrives in three parts.
static void read_stream(std::span<const std::byte> start, std::size_t size)
{
    std::vector<std::byte> stream(start.begin(), start.end());
    stream.resize(size);
    frame_reader reader;
    std::size_t at = 0;
    for (std::size_t part = 1; part <= 3; ++part) {
        const std::size_t arrived = stream.size() / 3 * part;
        for (packet p; at < arrived;) {
            std::size_t taken = 0;
            const auto found = reader.next(std::span(stream).subspan(at, arrived - at), p, taken);
            if (found == frame_reader::found::garbage)
                return;
            if (found == frame_reader::found::too_little)
                break;
            if (taken == 0 || taken > arrived - at || p.payload.size() > taken)
                abort();
            at += taken;
        }
    }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::span<const std::byte> input{reinterpret_cast<const std::byte *>(data), size};
    const auto length = frame_size(input);
    if (length && *length > max_frame)
        abort();
    if (length)
        read_stream(input, *length);
    packet p;
    if (decode(input, p) && (p.payload.size() > size || p.payload.size() > max_segment))
        abort();
    cm_handshake handshake;
    if (decode(input, handshake) && handshake.data.size > handshake.data.bytes.size())
        abort();
    direct_handshake direct;
    if (decode(input, direct) && size > encode(direct).size)
        abort();
    shm_decision decision;
    if (decode(input, decision) && (size > 2 || (decision.shares && decision.reason != no_shm_reason::none)))
        abort();
    cm_rejection rejection;
    if (decode(input, rejection) && rejection.data.size > rejection.data.bytes.size())
        abort();
    return 0;
}
