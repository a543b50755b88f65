// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <thread>
#include <vector>

#include "part.hpp"
#include "part_map.hpp"

namespace rpmemd
{

// The usable bytes of all parts, one after another.
class pool_memory
{
public:
    // Of every part after the first so many bytes at its beginning are left out. Throws failure.
    pool_memory(const std::vector<part> &parts, std::size_t left_out);

    std::byte *address() const { return range_.address(); }
    std::size_t size() const { return size_; }
    // The weakest of the parts.
    rpmemd::medium medium() const;

    // Both return 0 or an errno value; the range is inside the memory.
    int persist(std::size_t offset, std::size_t length) const;
    int deep_persist(std::size_t offset, std::size_t length) const;

    // Has pages there before they are written, from the beginning on, in a thread.
    void populate();

private:
    template<class F>
    int each_piece(std::size_t offset, std::size_t length, F f) const;

    std::size_t size_;
    address_range range_;
    std::vector<part_map> maps_; // their sizes add up to the size
    std::jthread populating_;
};

// The bytes that such a memory would have.
std::uint64_t usable_size(const std::vector<part> &parts, std::size_t left_out);

} // namespace rpmemd
