// SPDX-License-Identifier: BSD-3-Clause
#include "part_map.hpp"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "failure.hpp"
#include "part.hpp"

namespace rpmemd
{

namespace
{

struct source_deleter {
    void operator()(pmem2_source *source) const { pmem2_source_delete(&source); }
};
struct config_deleter {
    void operator()(pmem2_config *config) const { pmem2_config_delete(&config); }
};
using source_ptr = std::unique_ptr<pmem2_source, source_deleter>;
using config_ptr = std::unique_ptr<pmem2_config, config_deleter>;

// Converts an error of libpmem2: a negative errno value, or a number of its own, which becomes ENOTSUP.
int errno_from(int error)
{
    return error > PMEM2_E_UNKNOWN ? -error : ENOTSUP;
}

void check(int error, const std::string &message)
{
    if (error != 0)
        throw failure(errno_from(error), message + ": " + pmem2_errormsg());
}

source_ptr source_of(int fd, const std::string &path)
{
    pmem2_source *source = nullptr;
    check(pmem2_source_from_fd(&source, fd), "cannot use the part " + path);
    return source_ptr(source);
}

bool is_lost_with_power(int fd)
{
    struct statfs facts {
    };
    return fstatfs(fd, &facts) == 0 &&
           (facts.f_type == TMPFS_MAGIC || facts.f_type == HUGETLBFS_MAGIC || facts.f_type == RAMFS_MAGIC);
}

int sync_pages(const std::byte *from, std::size_t length)
{
    const std::size_t page_offset = reinterpret_cast<std::uintptr_t>(from) % page_size;
    void *const page = const_cast<std::byte *>(from - page_offset);
    return msync(page, length + page_offset, MS_SYNC) == 0 ? 0 : errno;
}

} // namespace

bool is_mappable(int fd)
{
    pmem2_source *source = nullptr;
    std::size_t size = 0;
    const bool is_supported = pmem2_source_from_fd(&source, fd) == 0;
    const source_ptr owned(source);
    return is_supported && pmem2_source_size(source, &size) == 0;
}

std::uint64_t source_size(int fd, const std::string &path)
{
    std::size_t size = 0;
    check(pmem2_source_size(source_of(fd, path).get(), &size), "cannot get the size of the part " + path);
    return size;
}

std::uint64_t unsafe_shutdown_count(const part &file)
{
    std::uint64_t count = 0;
    return pmem2_source_device_usc(source_of(file.fd(), file.path()).get(), &count) == 0 ? count : 0;
}

address_range::address_range(std::size_t size)
{
    pmem2_vm_reservation *range = nullptr;
    check(pmem2_vm_reservation_new(&range, nullptr, size), "cannot reserve addresses for the pool");
    range_.reset(range);
}

std::byte *address_range::address() const
{
    return static_cast<std::byte *>(pmem2_vm_reservation_get_address(range_.get()));
}

part_map::part_map(const part &file, std::uint64_t offset, std::size_t size, const address_range *range, std::size_t at)
    : size_(size)
{
    const std::string message = "cannot map the part " + file.path();
    const source_ptr source = source_of(file.fd(), file.path());
    pmem2_config *created = nullptr;
    check(pmem2_config_new(&created), message);
    const config_ptr config(created);
    std::size_t alignment = 0;
    check(pmem2_source_alignment(source.get(), &alignment), message);
    // A mapping of a device must be a multiple of the page size of the device.
    const std::size_t mapped = range == nullptr ? (size + alignment - 1) / alignment * alignment : size;
    check(pmem2_config_set_required_store_granularity(config.get(), PMEM2_GRANULARITY_PAGE), message);
    check(pmem2_config_set_offset(config.get(), offset), message);
    check(pmem2_config_set_length(config.get(), mapped), message);
    if (range != nullptr)
        check(pmem2_config_set_vm_reservation(config.get(), range->get(), at), message);
    pmem2_map *map = nullptr;
    check(pmem2_map_new(&map, config.get(), source.get()), message);
    map_.reset(map);
    persist_ = pmem2_get_persist_fn(map);
    if (pmem2_map_get_store_granularity(map) != PMEM2_GRANULARITY_PAGE)
        medium_ = medium::persistent;
    else if (is_lost_with_power(file.fd()))
        medium_ = medium::memory;
}

std::byte *part_map::address() const
{
    return static_cast<std::byte *>(pmem2_map_get_address(map_.get()));
}

int part_map::persist(const std::byte *from, std::size_t length) const
{
    // Calls msync directly, because the persist function of libpmem2 for pages does not report an error.
    if (medium_ != medium::persistent)
        return sync_pages(from, length);
    persist_(from, length);
    return 0;
}

int part_map::deep_persist(std::byte *from, std::size_t length) const
{
    if (const int error = persist(from, length); error != 0 || medium_ != medium::persistent)
        return error;
    const int error = pmem2_deep_flush(map_.get(), from, length);
    return error == 0 ? 0 : errno_from(error);
}

} // namespace rpmemd
