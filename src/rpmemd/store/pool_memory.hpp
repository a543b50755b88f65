// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <thread>
#include <vector>

#include "config/failure.hpp"
#include "region/file_map.hpp"
#include "store/part.hpp"

namespace rpmemd
{

// Usable bytes of all parts, mapped one after another.
class pool_memory
{
public:
    // Maps the parts, then `added`, without the first `left_out` bytes of each but the first part.
    pool_memory(const std::vector<part> &parts, std::size_t left_out, const std::vector<part> &added = {});

    std::byte *address() const { return map_.address(); }
    std::size_t size() const { return map_.size(); }
    replica::medium medium() const { return map_.medium(); }

    // Return 0 or an errno value. The range must be inside the memory.
    int persist(std::size_t offset, std::size_t length) const { return map_.persist({offset, length}); }
    int deep_persist(std::size_t offset, std::size_t length) const { return map_.deep_persist({offset, length}); }

    // Starts a thread that populates the pages from the beginning, before clients write to them.
    void populate();
    void stop_populating() { populating_ = {}; }

private:
    replica::file_map map_;
    std::jthread populating_;
};

// Read memory of a pool, in which an access can raise SIGBUS: a part was truncated, or its medium is damaged.
// Returns the hashes of the segments, at most max_hashes. Throws failure if a page cannot be read.
std::string hash_parts(const std::string &set_name, std::span<const std::byte> memory);
int copy_parts(std::span<const std::byte> from, std::byte *to);
failure unreadable_parts(const std::string &set_name, int error);

std::uint64_t usable_size(const std::vector<part> &parts, std::size_t left_out);

} // namespace rpmemd
