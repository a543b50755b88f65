// SPDX-License-Identifier: BSD-3-Clause
// The decoder of a peer's address of shared memory on this host: it accepts only the output of the encoder.
#include "wire/shm_address.hpp"
#include "bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

using namespace softrdma;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::span<const std::byte> input{reinterpret_cast<const std::byte *>(data), size};
    byte_reader reader(input);
    shm_address address;
    if (!get(reader, address))
        return 0;
    if (address.present != (size > 0))
        abort();
    std::vector<std::byte> again(size);
    byte_writer writer(again.data());
    put(writer, address);
    if (writer.size() != size || !std::equal(again.begin(), again.end(), input.begin()))
        abort();
    return 0;
}
