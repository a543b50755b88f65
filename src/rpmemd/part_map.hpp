// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <libpmem2.h>
#include <memory>
#include <string>

namespace rpmemd
{

class part;

enum class medium {
    memory,     // lost with power: tmpfs and the like
    page_cache, // durable after msync
    persistent  // durable after its cache lines are flushed
};

bool is_mappable(int fd);

std::uint64_t source_size(int fd, const std::string &path);

// Returns the number of power losses without flushing of the device of a part, or 0 if the device does not count them.
std::uint64_t unsafe_shutdown_count(const part &file);

// Reserved address range, for adjacent mappings.
class address_range
{
public:
    explicit address_range(std::size_t size); // throws failure
    std::byte *address() const;
    pmem2_vm_reservation *get() const { return range_.get(); }

private:
    struct deleter {
        void operator()(pmem2_vm_reservation *range) const { pmem2_vm_reservation_delete(&range); }
    };
    std::unique_ptr<pmem2_vm_reservation, deleter> range_;
};

class part_map
{
public:
    // Maps at any address, or at offset `at` of `range`. Throws failure.
    part_map(const part &file, std::uint64_t offset, std::size_t size, const address_range *range = nullptr,
            std::size_t at = 0);

    std::byte *address() const;
    std::size_t size() const { return size_; }
    rpmemd::medium medium() const { return medium_; }

    // Both return 0 or an errno value.
    int persist(const std::byte *from, std::size_t length) const;
    int deep_persist(std::byte *from, std::size_t length) const;

private:
    struct deleter {
        void operator()(pmem2_map *map) const { pmem2_map_delete(&map); }
    };
    std::unique_ptr<pmem2_map, deleter> map_;
    std::size_t size_ = 0;
    pmem2_persist_fn persist_ = nullptr;
    rpmemd::medium medium_ = medium::page_cache;
};

} // namespace rpmemd
