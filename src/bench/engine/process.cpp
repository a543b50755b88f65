// SPDX-License-Identifier: BSD-3-Clause
#include "process.hpp"

#include <fstream>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace bench
{

std::size_t resident_bytes()
{
    std::ifstream statm("/proc/self/statm");
    std::size_t total = 0, resident = 0;
    statm >> total >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t hash_bytes(const void *data, std::size_t len)
{
    return XXH3_64bits(data, len);
}

} // namespace bench
