// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/file_mapping.hpp"
#include "base/guard.hpp"
#include "base/own_descriptors.hpp"
#include "base/proc_maps.hpp"
#include "pmem/mapping.hpp"
#include "pmem/page_sync.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace softrdma
{

namespace
{

bool find_area(std::uint32_t pid, std::uint64_t address, std::uint64_t length, mapped_area &out)
{
    proc_lines maps(("/proc/" + std::to_string(pid) + "/maps").c_str());
    while (const char *line = maps && length > 0 ? maps.next() : nullptr) {
        if (out.parse(line) && address >= out.begin && address < out.end)
            return out.is_shared() && length <= out.end - address;
    }
    return false;
}

int open_same(const std::string &path, const mapped_area &area)
{
    struct stat file = {};
    // Only regular files and DAX devices are opened: opening a device may have side effects.
    if (stat(path.c_str(), &file) != 0 || !(S_ISREG(file.st_mode) || S_ISCHR(file.st_mode)) ||
            file.st_ino != area.inode || file.st_dev != area.device)
        return -1;
    return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

// Duplicates a descriptor: opening its file again might fail. Must not be closed in the program's descriptor table.
int duplicate_same(int fd, const mapped_area &area)
{
    struct stat file = {};
    const bool same = fstat(fd, &file) == 0 && file.st_ino == area.inode && file.st_dev == area.device;
    return same && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
}

int open_descriptor_of(std::uint32_t pid, const mapped_area &area)
{
    const bool is_local = pid == static_cast<std::uint32_t>(getpid());
    const std::string directory = "/proc/" + std::to_string(pid) + "/fd";
    DIR *entries = opendir(directory.c_str());
    int fd = -1;
    while (entries != nullptr && fd < 0) {
        const dirent *entry = readdir(entries);
        if (entry == nullptr)
            break;
        if (entry->d_name[0] != '.')
            fd = is_local ? duplicate_same(atoi(entry->d_name), area)
                          : open_same(directory + "/" + entry->d_name, area);
    }
    if (entries != nullptr)
        closedir(entries);
    return fd;
}

int open_file(std::uint32_t pid, const mapped_area &area)
{
    if (const int fd = open_same(area.path, area); fd >= 0)
        return fd;
    char link[96];
    snprintf(link, sizeof(link), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid, area.begin, area.end);
    if (const int fd = open_same(link, area); fd >= 0)
        return fd;
    return open_descriptor_of(pid, area);
}

bool is_memory(int fd)
{
    struct statfs facts = {};
    return fstatfs(fd, &facts) == 0 && facts.f_type == TMPFS_MAGIC;
}

file_part part_of(std::uint32_t pid, std::uint64_t address, const mapped_area &area)
{
    const std::uint64_t within = address - area.begin;
    return {unique_fd(open_file(pid, area)), area.offset + within - within % page_size()};
}

} // namespace

file_mapping::file_mapping(std::uint64_t length, region_kind kind)
    : size_(length), direct_access_(kind == region_kind::direct_access)
{
    guard_mapped_files();
}

file_part file_part::find(std::uint32_t pid, std::uint64_t address, std::uint64_t length)
{
    mapped_area area;
    return find_area(pid, address, length, area) ? part_of(pid, address, area) : file_part{};
}

std::shared_ptr<file_mapping> file_mapping::open(
        std::uint32_t pid, std::uint64_t address, std::uint64_t length, region_kind kind)
{
    mapped_area area;
    if (!find_area(pid, address, length, area))
        return nullptr;
    if (pid != static_cast<std::uint32_t>(getpid())) {
        std::shared_ptr<file_mapping> found;
        // A private descriptor table: closing the file must not release POSIX locks of the program on it.
        with_own_descriptors([&] { found = open(part_of(pid, address, area), address, length, kind); });
        return found;
    }
    std::shared_ptr<file_mapping> m(new file_mapping(length, kind)); // it is mapped already
    m->at_ = reinterpret_cast<std::byte *>(address);
    return m;
}

std::shared_ptr<file_mapping> file_mapping::open(
        const file_part &part, std::uint64_t address, std::uint64_t length, region_kind kind)
{
    const std::uint64_t lead = address % page_size();
    const int flags = kind == region_kind::direct_access ? MAP_SHARED_VALIDATE | MAP_SYNC : MAP_SHARED;
    if (part.file.get() < 0 || length > UINT64_MAX - lead)
        return nullptr;
    void *at = mmap(
            nullptr, lead + length, PROT_READ | PROT_WRITE, flags, part.file.get(), static_cast<off_t>(part.offset));
    if (at == MAP_FAILED)
        return nullptr;
    std::shared_ptr<file_mapping> m(new file_mapping(length, kind));
    m->whole_ = at;
    m->whole_size_ = lead + length;
    m->at_ = static_cast<std::byte *>(at) + lead;
    if (m->direct_access_ || is_memory(part.file.get()))
        m->populated_ = std::make_unique<std::atomic<bool>[]>(m->whole_size_ / populated_at_once + 1);
    return m;
}

file_mapping::~file_mapping()
{
    if (whole_ != nullptr)
        munmap(whole_, whole_size_);
}

// Populates the pages of a chunk. An optimization: kernels before 5.14 lack it, and it fails if the file was truncated.
[[gnu::noinline]] void file_mapping::populate_chunk(std::uint64_t index) noexcept
{
    constexpr int populate_write = 23; // MADV_POPULATE_WRITE
    const std::uint64_t begin = index * populated_at_once;
    populated_[index].store(true, std::memory_order_relaxed);
    madvise(static_cast<std::byte *>(whole_) + begin, std::min(populated_at_once, whole_size_ - begin), populate_write);
}

bool file_mapping::copy_into(std::byte *file, std::span<const iovec> from) noexcept
{
    return guarded([=] { copy_all_in(file, from); });
}

bool file_mapping::read(std::uint64_t offset, std::span<const iovec> to) noexcept
{
    return covers(offset, total_length(to)) && guarded([=, from = at_ + offset] { copy_all_from(from, to); });
}

int file_mapping::write_back(std::uint64_t offset, std::size_t bytes) const noexcept
{
    if (!covers(offset, bytes))
        return EFAULT;
    const auto begin = reinterpret_cast<std::uintptr_t>(at_) + offset;
    if (direct_access_) {
        pmem::write_back(begin, bytes);
        return 0;
    }
    return pmem::sync_pages(begin, bytes);
}

} // namespace softrdma
