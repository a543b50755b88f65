// SPDX-License-Identifier: BSD-3-Clause
// Replaces msync(2) for simulated power cuts: programs persist data of their peers with it.
#include "pmem/page_sync.hpp"

// Weak: an msync() of the program has precedence, even if the device is linked into the program.
extern "C" [[gnu::weak]] int msync_of_program(void *begin, std::size_t length, int flags) __asm__("msync");

extern "C" int msync_of_program(void *begin, std::size_t length, int flags)
{
    return softrdma::pmem::sync_for_program(begin, length, flags);
}
