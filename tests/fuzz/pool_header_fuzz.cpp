// SPDX-License-Identifier: BSD-3-Clause
// Decoder of the pool header: the first page of a part can have any content.
#include "store/pool_header.hpp"

#include <algorithm>
#include <cstdlib>

using namespace rpmemd;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    header_page page{};
    std::copy_n(data, std::min(size, page.size()), page.begin());
    const pool_header header = decode(page);
    // Decoding and encoding must preserve a header, except for the checksum, which is then valid.
    const header_page again = encode(header, page);
    if (!checksum_matches(again) || (checksum_matches(page) && again != page))
        abort();
    pool_header copy = header;
    set_attributes(copy, attributes_of(header));
    if (copy != header || decode(again) != header)
        abort();
    return 0;
}
