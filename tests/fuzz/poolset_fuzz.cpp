// SPDX-License-Identifier: BSD-3-Clause
// The parser of set files, which any user with write access to the poolset directory can create.
#include "store/poolset.hpp"

#include <cstdlib>

#include "config/failure.hpp"

using namespace rpmemd;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    try {
        const poolset set = parse_poolset({reinterpret_cast<const char *>(data), size});
        if (set.parts.empty() || (set.single_header && set.no_headers))
            abort();
        for (const part_line &part : set.parts)
            if (part.path.empty() || part.path[0] != '/' || (part.size != 0 && part.size < min_part_size))
                abort();
    } catch (const failure &error) {
        if (error.os_errno() != EINVAL)
            abort();
    }
    return 0;
}
