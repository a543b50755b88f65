// SPDX-License-Identifier: BSD-3-Clause
#include "sysfs/paths.hpp"
#include "sysfs/tree.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <string>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

#include "no_cancellation.hpp"

namespace softrdma::sysfs
{

namespace
{

constexpr std::string_view sys = "/sys";
// Directories of the device. Each is below the private directory without the leading /sys.
constexpr std::string_view directories[] = {"/sys/class/infiniband", "/sys/class/infiniband_verbs",
        "/sys/class/infiniband_mad", "/sys/class/misc/rdma_cm", "/sys/devices/platform/softrdma0", "/dev/infiniband"};

std::string directory_of(int descriptor)
{
    const std::string link = descriptor == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(descriptor);
    std::array<char, PATH_MAX> target{};
    // Not readlink(), which is replaced for programs.
    const long length = syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), target.data(), target.size());
    return length <= 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(length)) + "/";
}

void append(std::string &path, std::string_view component)
{
    if (component == "..")
        path.resize(std::min(path.size(), path.rfind('/')));
    else if (!component.empty() && component != ".")
        (path += '/') += component;
}

std::string below_root(std::string_view directory, std::string_view rest)
{
    const std::string &root = tree();
    const std::string_view inside = directory.substr(directory.starts_with(sys) ? sys.size() : 0);
    return root.empty() ? root : (root + std::string(inside)).append(rest);
}

// Returns an empty string for a path outside the directories of the device.
std::string private_path(std::string_view path, bool can_list)
{
    std::string start;
    for (std::size_t at = 0; at < path.size();) {
        const std::size_t end = std::min(path.find('/', at), path.size());
        append(start, path.substr(at, end - at));
        at = end + 1;
        if (std::ranges::find(directories, start) == std::end(directories))
            continue;
        return below_root(start, path.substr(end)); // the kernel resolves links in the rest
    }
    const bool is_parent = can_list && std::ranges::find(listed_directories, start) != std::end(listed_directories);
    return is_parent ? below_root(start, {}) : std::string();
}

bool can_be_of_device(const char *path) noexcept
{
    return strstr(path, "infiniband") != nullptr || strstr(path, "softrdma0") != nullptr ||
           strstr(path, "rdma_cm") != nullptr;
}

bool can_be_parent(std::string_view path) noexcept
{
    path.remove_suffix(path.size() - std::min(path.find_last_not_of("/.") + 1, path.size()));
    const std::string_view name = path.substr(path.rfind('/') + 1);
    return std::ranges::any_of(
            listed_directories, [&](std::string_view parent) { return parent.ends_with(name) && name.size() > 3; });
}

} // namespace

located::located(int directory, const char *path, bool can_list) noexcept : path_(path)
{
    if (path == nullptr || !(can_be_of_device(path) || (can_list && can_be_parent(path))))
        return;
    const int error = errno;
    const no_cancellation uncanceled;
    try {
        const std::string found = private_path(*path == '/' ? path : directory_of(directory) + path, can_list);
        if (!found.empty() && found.size() < sizeof(own_))
            path_ = strcpy(own_, found.c_str());
    } catch (const std::bad_alloc &) {
        path_ = path; // the system reports that the file does not exist
    }
    errno = error;
}

located::located(const char *path) noexcept : located(AT_FDCWD, path) {}

std::size_t make_visible(char *text, std::size_t length) noexcept
{
    const std::string *root = existing_tree();
    const std::string_view all(text, length);
    if (root == nullptr || root->empty() || !all.starts_with(*root) ||
            (all.size() > root->size() && all[root->size()] != '/'))
        return length;
    const std::string_view inside = all.substr(root->size());
    const std::string_view start = inside.starts_with("/dev/infiniband") ? "" : sys;
    const std::size_t rest_size = inside.size();
    memmove(text + start.size(), inside.data(), rest_size);
    memcpy(text, start.data(), start.size());
    return start.size() + rest_size;
}

char *make_visible(char *path) noexcept
{
    if (path != nullptr)
        path[make_visible(path, strlen(path))] = '\0';
    return path;
}

} // namespace softrdma::sysfs
