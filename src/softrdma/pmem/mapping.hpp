// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "pmem/power_cut.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace softrdma::pmem
{

// Method that makes stores to a range of this process' memory durable.
enum class durability {
    volatile_memory, // none: anonymous or private memory
    file,            // msync of the stored pages
    direct_access,   // write-back of the stored cache lines
};

struct extent {
    std::uintptr_t begin;
    std::uintptr_t end;
    durability kind;
};

class mapping
{
public:
    // Returns 0, or EFAULT if a part of the range is not mapped, not readable, or (with `writable`) not writable.
    static int inspect(std::uintptr_t begin, std::size_t length, bool writable, mapping &out);

    // Must be called before each store, for the simulation of a power cut.
    void about_to_store(std::uintptr_t begin, std::size_t length) const
    {
        if (power_cut::armed()) [[unlikely]]
            remember(begin, length);
    }

    // Must be called after each store: writes direct-access lines back. Returns true if data in a file needs sync().
    bool stored(std::uintptr_t begin, std::size_t length) const noexcept;

    // Makes the files' pages in the range durable. Returns 0 or an errno value.
    int sync(std::uintptr_t begin, std::size_t length) const noexcept;

    bool is_durable(std::size_t length) const noexcept;

    // Returns true if an access may raise SIGBUS: pages of files, shared or private, and huge pages may be missing.
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
