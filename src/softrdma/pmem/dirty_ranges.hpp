// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/assert.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace softrdma::pmem
{

// Ranges that were stored to and not yet flushed, one per region or file.
template<typename Owner>
class dirty_ranges
{
public:
    bool empty() const noexcept { return ranges_.empty(); }
    // Adds a range. Returns true if the owner had none.
    bool merge(const std::shared_ptr<Owner> &owner, std::uint64_t begin, std::uint64_t end)
    {
        SOFTRDMA_ASSERT(begin <= end);
        for (range &dirty : ranges_) {
            if (dirty.owner == owner) {
                dirty.begin = std::min(dirty.begin, begin);
                dirty.end = std::max(dirty.end, end);
                return false;
            }
        }
        add(owner, begin, end);
        return true;
    }
    // Calls `write_back(owner, begin, end)` for each range. Afterwards no range is dirty, unless a call returned false.
    template<typename WriteBack>
    bool make_durable(const WriteBack &write_back)
    {
        const bool all_written = std::all_of(ranges_.begin(), ranges_.end(),
                [&](const range &dirty) { return write_back(dirty.owner, dirty.begin, dirty.end); });
        if (all_written)
            ranges_.clear();
        return all_written;
    }
    // Removes ranges of owners that are gone, if there are many ranges.
    template<typename IsGone>
    void forget(const IsGone &is_gone)
    {
        constexpr std::size_t many = 64;
        if (ranges_.size() >= many)
            std::erase_if(ranges_, [&](const range &dirty) { return is_gone(dirty.owner); });
    }

private:
    struct range {
        std::shared_ptr<Owner> owner;
        std::uint64_t begin;
        std::uint64_t end;
    };
    [[gnu::cold, gnu::noinline]] void add(const std::shared_ptr<Owner> &owner, std::uint64_t begin, std::uint64_t end)
    {
        ranges_.push_back({owner, begin, end});
    }

    std::vector<range> ranges_;
};

} // namespace softrdma::pmem
