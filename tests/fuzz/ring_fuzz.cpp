// SPDX-License-Identifier: BSD-3-Clause
// The reader of a ring that another process writes. The first byte of the input determines whether the rest lies at the
// beginning of the ring's data or at its end, where the valid data before it ends, and where the ring restarts.
#include "transport/shm/datagram_ring.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace softrdma;

namespace
{

constexpr std::size_t max_bytes = 2 * 8192;
constexpr std::uint16_t own_port = 0x1234;
constexpr std::uint16_t peer_port = 0x5678;

ring_memory memory_of(std::byte *at)
{
    return {at, [](std::byte *) {}};
}

// The ring, and the position at which the input is stored.
struct ring {
    std::byte *at = static_cast<std::byte *>(std::aligned_alloc(page, ring_size));
    std::size_t end = 0;

    ring()
    {
        static std::byte payload[max_datagram_payload];
        const iovec piece{payload, sizeof(payload)};
        memset(at, 0, ring_size);
        ring_writer writer(memory_of(at));
        while (end + max_bytes < ring_data_size) {
            if (writer.put({}, {}, {&piece, 1}, sizeof(payload)) != ring_writer::outcome::sent)
                abort();
            end += whole_lines(sizeof(ring_record) + sizeof(payload));
        }
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    static const ring full;
    static std::byte *const empty = static_cast<std::byte *>(std::calloc(1, ring_size + page));
    if (size == 0)
        return 0;
    const bool at_end = data[0] % 2 != 0;
    const std::size_t begin = at_end ? full.end : 0;
    std::byte *ring = at_end ? full.at : empty + (page - reinterpret_cast<std::uintptr_t>(empty) % page);
    std::byte *to = ring + page + begin;
    const std::size_t space = std::min(ring_data_size - begin, max_bytes);
    memset(to, 0, space);
    memcpy(to, data + 1, std::min(size - 1, space));
    // A fuzzer cannot guess the sequence numbers of records, so every line that is not empty becomes a record of this
    // lap.
    for (std::size_t offset = 0; offset < space; offset += cache_line) {
        std::uint64_t sequence = 0;
        memcpy(&sequence, to + offset, sizeof(sequence));
        sequence = sequence == 0 ? 0 : begin + offset + 1;
        memcpy(to + offset, &sequence, sizeof(sequence));
    }
    const bool restarts = (data[0] & 2) != 0;
    reinterpret_cast<ring_control *>(ring)->restart =
            restarts ? begin + std::size_t{data[0] / 4u} * cache_line : UINT64_MAX;
    ring_reader reader(memory_of(ring), own_port, peer_port);
    datagram d;
    network_address source;
    network_address destination;
    ring_reader::outcome found = ring_reader::outcome::datagram;
    for (std::size_t count = 0; found == ring_reader::outcome::datagram; ++count) {
        if (count > ring_data_size / cache_line)
            abort(); // the reader does not terminate
        found = reader.take(d, source, destination);
        if (found != ring_reader::outcome::datagram)
            break;
        const std::byte *last = ring + ring_size;
        if (d.payload.size() > max_datagram_payload || d.payload.data() < ring + page ||
                d.payload.data() + d.payload.size() > last || d.dest_qpn >> 8 != own_port ||
                d.source_qpn >> 8 != peer_port || d.psn > 0xffffff)
            abort();
        if (std::count(d.payload.begin(), d.payload.end(), std::byte{1}) < 0) // reads all bytes
            abort();
    }
    return 0;
}
