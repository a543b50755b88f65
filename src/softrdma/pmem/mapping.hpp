// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "pmem/power_cut.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace softrdma::pmem
{

// What it takes to make stores into a range of this process' memory durable.
enum class durability {
    volatile_memory, // nothing can: anonymous or private memory
    file,            // msync of the touched pages
    direct_access,   // write-back of the touched cache lines
};

struct extent {
    std::uintptr_t begin;
    std::uintptr_t end;
    durability kind;
};

// The mappings under a range, in address order.
class mapping
{
public:
    // Inspects this process' mappings. Returns 0, or EFAULT when a part of the range is not mapped or
    // does not allow reading (with `writable`: reading and writing).
    static int inspect(std::uintptr_t begin, std::size_t length, bool writable, mapping &out);

    // To be called before each store, for the simulation of a power cut.
    void about_to_store(std::uintptr_t begin, std::size_t length) const
    {
        if (power_cut::armed()) [[unlikely]]
            remember(begin, length);
    }

    // To be called after each store: writes direct-access cache lines back and reports whether some page
    // of a file was touched, which then needs sync() before the data may be called durable.
    bool stored(std::uintptr_t begin, std::size_t length) const noexcept;

    // Makes the files' pages in the range durable. Returns 0 or an errno value.
    int sync(std::uintptr_t begin, std::size_t length) const noexcept;

    // True if nothing of the inspected `length` bytes is volatile.
    bool is_durable(std::size_t length) const noexcept;

    // True if an access may raise SIGBUS: pages of files, shared or private, and huge pages may be missing.
    bool may_fault() const noexcept { return may_fault_; }
    const std::vector<extent> &extents() const noexcept { return extents_; }

private:
    void add(extent e);
    void remember(std::uintptr_t begin, std::size_t length) const;

    std::vector<extent> extents_; // only the durable ones
    bool may_fault_ = false;
};

// Writes the cache lines back and waits until that is ordered before later stores.
void write_back(std::uintptr_t begin, std::size_t length) noexcept;

} // namespace softrdma::pmem
