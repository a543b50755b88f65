// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <libpmem2.h>
#include <memory>
#include <vector>

#include "base/range.hpp"

namespace replica
{

enum class medium {
    memory,     // lost with power: anonymous memory, tmpfs and the like
    page_cache, // durable after msync
    persistent  // durable after its cache lines are flushed
};

// Converts an error of libpmem2: a negative errno value, or a number of its own, which becomes ENOTSUP.
int errno_from(int error);

// Size in bytes and required alignment of the mappings of a file or DAX device. Both return 0 or an error of libpmem2.
int source_size(int fd, std::uint64_t *size);
int source_alignment(int fd, std::uint64_t *alignment);

// Allocates all bytes of a file before its size changes, if the file system supports this. Returns 0 or an errno value.
int allocate_file(int fd, std::uint64_t size);

// Returns the number of unsafe shutdowns (power losses without flushing) of a device, or 0 if it does not count them.
std::uint64_t unsafe_shutdown_count(int fd);

// Adjacent mappings of files, or anonymous memory. Functions that map return 0 or an error of libpmem2, which
// errno_from() converts and pmem2_errormsg() describes.
class file_map
{
public:
    // Reserves addresses for all mappings, at `hint` if possible. Otherwise libpmem2 selects that of the only mapping.
    int reserve(std::uint64_t size, void *hint = nullptr);
    // Returns an errno value instead of an error of libpmem2.
    int reserve_anonymous(std::uint64_t size, void *hint);
    // Maps bytes of a file behind the current mappings. add() makes them part of the memory.
    int map(int fd, std::uint64_t offset, std::uint64_t length);
    // Makes anonymous memory usable, like map(). Returns 0 or an errno value.
    int map_anonymous(std::uint64_t length);
    void add();
    // Removes all mappings and the reservation.
    void clear();
    // Uses memory that the program mapped from a DAX device, or from another file, which msync() flushes.
    int adopt_device(int fd, void *address, std::uint64_t length);
    void adopt_file(int fd, void *address, std::uint64_t length);

    std::byte *address() const { return address_; }
    std::size_t size() const { return size_; }
    // The least durable medium of all mappings.
    replica::medium medium() const { return medium_; }

    // Return 0 or an errno value. The range must be inside the memory. A flushed range is durable after drain().
    int flush(range r) const noexcept;
    void drain() const noexcept;
    int persist(range r) const noexcept;
    // Flushes a persistent range from the buffers of its device. Returns 0 or an error of libpmem2.
    int deep_flush(range r) const noexcept;
    int deep_persist(range r) const noexcept;

private:
    template<auto Delete>
    struct deleter {
        template<class T>
        void operator()(T *object) const
        {
            Delete(&object);
        }
    };
    struct unmapper {
        std::uint64_t size;
        void operator()(std::byte *memory) const;
    };
    struct mapping {
        std::unique_ptr<pmem2_map, deleter<pmem2_map_delete>> map; // null: mapped without libpmem2
        std::uint64_t size = 0;
        replica::medium kind = medium::memory;
        pmem2_flush_fn flush = nullptr;
        pmem2_drain_fn drain = nullptr;
    };
    static mapping mapping_of(pmem2_map *map, int fd, std::uint64_t size);
    template<class F>
    int for_each_chunk(range r, F f) const;

    std::byte *address_ = nullptr;
    std::uint64_t size_ = 0;
    replica::medium medium_ = medium::memory;
    std::unique_ptr<std::byte, unmapper> anonymous_;
    std::unique_ptr<pmem2_vm_reservation, deleter<pmem2_vm_reservation_delete>> reservation_;
    std::uint64_t reservation_offset_ = 0;
    std::vector<mapping> maps_; // their sizes add up to the size
    mapping next_;              // not yet in maps_
};

} // namespace replica
