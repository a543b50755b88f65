// SPDX-License-Identifier: BSD-3-Clause
#include "base/proc_maps.hpp"

#include <cinttypes>
#include <cstdlib>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace softrdma
{

bool mapped_area::parse(const char *line)
{
    int path_at = 0;
    unsigned major_number = 0;
    unsigned minor_number = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %lu %n", &begin, &end, permissions, &offset,
                &major_number, &minor_number, &inode, &path_at) < 7)
        return false;
    device = makedev(major_number, minor_number);
    path = line + path_at;
    if (!path.empty() && path.back() == '\n')
        path.pop_back();
    return true;
}

proc_lines::proc_lines(const char *path) : file_(fopen(path, "re")) {}

void proc_lines::line_deleter::operator()(char *line) const noexcept
{
    free(line);
}

const char *proc_lines::next()
{
    char *raw = line_.release();
    const ssize_t length = getline(&raw, &capacity_, file_.get());
    line_.reset(raw);
    return length < 0 ? nullptr : line_.get();
}

std::uintptr_t page_size() noexcept
{
    static const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    return size;
}

} // namespace softrdma
