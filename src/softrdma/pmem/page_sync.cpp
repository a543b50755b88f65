// SPDX-License-Identifier: BSD-3-Clause
#include "pmem/page_sync.hpp"
#include "base/proc_maps.hpp"
#include "pmem/power_cut.hpp"

#include <cerrno>
#include <dlfcn.h>
#include <sys/mman.h>

namespace softrdma::pmem
{

using msync_function = int (*)(void *, std::size_t, int);

// True while this thread is inside sync_pages(), whose caller records durable ranges by cache line, not by page.
[[gnu::tls_model("initial-exec")]] static constinit thread_local bool is_for_device = false;

static msync_function find_msync(void *where) noexcept
{
    return reinterpret_cast<msync_function>(dlsym(where, "msync"));
}

int sync_pages(std::uintptr_t begin, std::size_t length) noexcept
{
    // Searches from the program on: with -Bsymbolic, the device would find its own function, not that of the program.
    static const msync_function first = find_msync(dlopen(nullptr, RTLD_LAZY));
    const std::uintptr_t from = begin - begin % page_size();
    is_for_device = true;
    const int result = first(reinterpret_cast<void *>(from), begin + length - from, MS_SYNC) == 0 ? 0 : errno;
    is_for_device = false;
    return result;
}

int sync_for_program(void *begin, std::size_t length, int flags) noexcept
{
    static const msync_function next = find_msync(RTLD_NEXT);
    const int result = next(begin, length, flags);
    if (power_cut::armed() && result == 0 && (flags & MS_SYNC) != 0 && !is_for_device) [[unlikely]]
        power_cut::on_durable(reinterpret_cast<std::uintptr_t>(begin), length);
    return result;
}

} // namespace softrdma::pmem
