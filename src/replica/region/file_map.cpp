// SPDX-License-Identifier: BSD-3-Clause
#include "region/file_map.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <utility>

namespace replica
{

namespace
{

constexpr std::uint64_t huge_page = 2 << 20;

struct source_deleter {
    void operator()(pmem2_source *source) const { pmem2_source_delete(&source); }
};
struct config_deleter {
    void operator()(pmem2_config *config) const { pmem2_config_delete(&config); }
};

// Calls `f` with the source of a file. Returns 0 or an error of libpmem2.
template<class F>
int with_source(int fd, F f)
{
    pmem2_source *source = nullptr;
    const int error = pmem2_source_from_fd(&source, fd);
    const std::unique_ptr<pmem2_source, source_deleter> owned(source);
    return error != 0 ? error : f(source);
}

int create_map(pmem2_map **map, const pmem2_source *source, std::uint64_t offset, std::uint64_t length,
        pmem2_vm_reservation *reservation, std::uint64_t at)
{
    pmem2_config *config = nullptr;
    int error = pmem2_config_new(&config);
    const std::unique_ptr<pmem2_config, config_deleter> owned(config);
    if (error == 0)
        error = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE);
    if (error == 0)
        error = pmem2_config_set_offset(config, offset);
    if (error == 0)
        error = pmem2_config_set_length(config, length);
    if (error == 0 && reservation != nullptr)
        error = pmem2_config_set_vm_reservation(config, reservation, at);
    return error != 0 ? error : pmem2_map_new(map, config, source);
}

// Returns the medium of a file that is flushed by msync.
medium medium_of(int fd)
{
    struct statfs facts {
    };
    const bool is_lost_with_power =
            fstatfs(fd, &facts) == 0 &&
            (facts.f_type == TMPFS_MAGIC || facts.f_type == HUGETLBFS_MAGIC || facts.f_type == RAMFS_MAGIC);
    return is_lost_with_power ? medium::memory : medium::page_cache;
}

int sync_pages(std::byte *from, std::uint64_t length)
{
    const std::uint64_t page_offset = reinterpret_cast<std::uintptr_t>(from) % page_size;
    return msync(from - page_offset, length + page_offset, MS_SYNC) == 0 ? 0 : errno;
}

} // namespace

int errno_from(int error)
{
    return error > PMEM2_E_UNKNOWN ? -error : ENOTSUP;
}

int source_size(int fd, std::uint64_t *size)
{
    return with_source(fd, [&](const pmem2_source *source) { return pmem2_source_size(source, size); });
}

int source_alignment(int fd, std::uint64_t *alignment)
{
    return with_source(fd, [&](const pmem2_source *source) { return pmem2_source_alignment(source, alignment); });
}

int allocate_file(int fd, std::uint64_t size)
{
    const auto end = static_cast<off_t>(size);
    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, end) == 0)
        return ftruncate(fd, end) == 0 ? 0 : errno;
    return errno == EOPNOTSUPP || errno == ENOSYS ? posix_fallocate(fd, 0, end) : errno;
}

std::uint64_t unsafe_shutdown_count(int fd)
{
    std::uint64_t count = 0;
    const int error = with_source(fd, [&](pmem2_source *source) { return pmem2_source_device_usc(source, &count); });
    return error == 0 ? count : 0;
}

void file_map::unmapper::operator()(std::byte *memory) const
{
    munmap(memory, size);
}

int file_map::reserve(std::uint64_t size, void *hint)
{
    pmem2_vm_reservation *created = nullptr;
    const bool at_hint = hint != nullptr && pmem2_vm_reservation_new(&created, hint, size) == 0;
    if (!at_hint) {
        if (const int error = pmem2_vm_reservation_new(&created, nullptr, size + huge_page); error != 0)
            return error;
        reservation_offset_ = -reinterpret_cast<std::uintptr_t>(pmem2_vm_reservation_get_address(created)) % huge_page;
    }
    reservation_.reset(created);
    return 0;
}

int file_map::reserve_anonymous(std::uint64_t size, void *hint)
{
    void *const memory = mmap(hint, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return errno;
    address_ = static_cast<std::byte *>(memory);
    anonymous_ = {address_, unmapper{size}};
    return 0;
}

int file_map::map_anonymous(std::uint64_t length)
{
    if (mprotect(address_ + size_, length, PROT_READ | PROT_WRITE) != 0)
        return errno;
    next_ = {};
    next_.size = length;
    return 0;
}

file_map::mapping file_map::mapping_of(pmem2_map *map, int fd, std::uint64_t size)
{
    const bool is_persistent = pmem2_map_get_store_granularity(map) != PMEM2_GRANULARITY_PAGE;
    return {decltype(mapping::map)(map), size, is_persistent ? medium::persistent : medium_of(fd),
            pmem2_get_flush_fn(map), pmem2_get_drain_fn(map)};
}

int file_map::map(int fd, std::uint64_t offset, std::uint64_t length)
{
    next_ = {};
    pmem2_map *created = nullptr;
    const int error = with_source(fd, [&](const pmem2_source *source) {
        return create_map(&created, source, offset, length, reservation_.get(), reservation_offset_ + size_);
    });
    if (error == 0)
        next_ = mapping_of(created, fd, length);
    return error;
}

void file_map::add()
{
    if (maps_.empty() && next_.map)
        address_ = static_cast<std::byte *>(pmem2_map_get_address(next_.map.get()));
    if (maps_.empty() || next_.kind < medium_)
        medium_ = next_.kind;
    size_ += next_.size;
    maps_.push_back(std::exchange(next_, {}));
}

// A reservation with mappings cannot be removed, so the assignment comes last.
void file_map::clear()
{
    next_ = {};
    maps_.clear();
    *this = {};
}

int file_map::adopt_device(int fd, void *address, std::uint64_t length)
{
    pmem2_map *created = nullptr;
    const int error = with_source(fd, [&](const pmem2_source *source) {
        return pmem2_map_from_existing(&created, source, address, length, PMEM2_GRANULARITY_CACHE_LINE);
    });
    if (error != 0)
        return error;
    next_ = mapping_of(created, fd, length);
    add();
    return 0;
}

void file_map::adopt_file(int fd, void *address, std::uint64_t length)
{
    address_ = static_cast<std::byte *>(address);
    next_ = {};
    next_.size = length;
    next_.kind = fd < 0 ? medium::memory : medium_of(fd);
    add();
}

template<class F>
int file_map::for_each_chunk(range r, F f) const
{
    std::uint64_t begin = 0;
    for (const mapping &m : maps_) {
        const std::uint64_t end = begin + m.size;
        const std::uint64_t first = std::max(r.offset, begin), last = std::min(r.offset + r.length, end);
        if (first < last)
            if (const int error = f(m, address_ + first, last - first); error != 0)
                return error;
        begin = end;
    }
    return 0;
}

int file_map::flush(range r) const noexcept
{
    // Calls msync directly, because the persist function of libpmem2 for pages does not report an error.
    return for_each_chunk(r, [](const mapping &m, std::byte *from, std::uint64_t length) {
        if (m.kind != medium::persistent)
            return sync_pages(from, length);
        m.flush(from, length);
        return 0;
    });
}

void file_map::drain() const noexcept
{
    for (const mapping &m : maps_)
        if (m.kind == medium::persistent)
            m.drain();
}

int file_map::persist(range r) const noexcept
{
    const int error = flush(r);
    drain();
    return error;
}

int file_map::deep_flush(range r) const noexcept
{
    return for_each_chunk(r, [](const mapping &m, std::byte *from, std::uint64_t length) {
        return m.kind == medium::persistent ? pmem2_deep_flush(m.map.get(), from, length) : 0;
    });
}

int file_map::deep_persist(range r) const noexcept
{
    if (const int error = persist(r); error != 0)
        return error;
    const int error = deep_flush(r);
    return error == 0 ? 0 : errno_from(error);
}

} // namespace replica
