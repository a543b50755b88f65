// SPDX-License-Identifier: BSD-3-Clause
// Programs that look at files of the kernel's devices by their names instead of asking libibverbs: UCX takes a device
// for usable if its file may be read and written, and learns from sysfs what type of GID it has. The device has no such
// files: whoever names one is shown what it would be. All other names are the kernel's affair.
#include "abi/device.hpp"
#include "base/gid_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdarg>
#include <cstring>
#include <fcntl.h>
#include <net/if.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// The headers promise that these get no NULL. Programs may give them one, and get EFAULT.
// A null pointer is passed on: the system answers it with EFAULT.
#define PASSES_NULL __attribute__((no_sanitize("nonnull-attribute")))

extern "C" PASSES_NULL int stat_of_program(const char *path, struct stat *out) __asm__("stat");
extern "C" PASSES_NULL int access_of_program(const char *path, int mode) __asm__("access");
extern "C" PASSES_NULL int open_of_program(const char *path, int flags, ...) __asm__("open");

namespace
{

using namespace softrdma;

constexpr std::string_view gid_attributes = "/sys/class/infiniband/softrdma0/ports/1/gid_attrs/";

const char *existing(const char *path) noexcept
{
    return path != nullptr && strcmp(path, abi::device_file) == 0 ? "/dev/null" : path;
}

// What the file would say; nothing if there would be none.
std::string attribute_of_gid(std::string_view name)
{
    const std::string_view kind = name.substr(0, name.find('/'));
    const std::string_view number = name.substr(std::min(name.size(), kind.size() + 1));
    const auto &gids = net::gid_table();
    std::size_t index = gids.size();
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), index);
    if (parsed.ec != std::errc{} || parsed.ptr != number.data() + number.size() || index >= gids.size())
        return {};
    if (kind == "types")
        return "RoCE v2\n";
    std::array<char, IF_NAMESIZE> interface {
    };
    if (kind != "ndevs" || if_indextoname(gids[index].interface, interface.data()) == nullptr)
        return {};
    return std::string(interface.data()) + '\n';
}

// -1 if it is not of those.
int open_attribute(const char *path, int flags)
{
    if (path == nullptr || !std::string_view(path).starts_with(gid_attributes) || (flags & O_ACCMODE) != O_RDONLY)
        return -1;
    const std::string text = attribute_of_gid(path + gid_attributes.size());
    const int fd = text.empty() ? -1 : memfd_create("softrdma-sysfs", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0);
    if (fd >= 0 && pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        close(fd);
        return -1;
    }
    return fd;
}

} // namespace

// A null pointer is passed on: the system answers it with EFAULT.
#define PASSES_NULL __attribute__((no_sanitize("nonnull-attribute")))

extern "C" PASSES_NULL int stat_of_program(const char *path, struct stat *out)
{
    return fstatat(AT_FDCWD, existing(path), out, 0);
}

extern "C" PASSES_NULL int access_of_program(const char *path, int mode)
{
    return faccessat(AT_FDCWD, existing(path), mode, 0);
}

extern "C" PASSES_NULL int open_of_program(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    const mode_t mode = creates ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    const int shown = open_attribute(path, flags);
    return shown >= 0 ? shown : openat(AT_FDCWD, path, flags, mode);
}
