// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/assert.hpp"
#include "base/copy.hpp"
#include "base/unique_fd.hpp"
#include "transport/shm/layout.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <sys/uio.h>

namespace softrdma
{

// Location of a mapping in its file.
struct file_part {
    unique_fd file;           // empty if not found
    std::uint64_t offset = 0; // offset of the first page

    // Empty if the range is not one shared mapping of a file that this process can open.
    static file_part find(std::uint32_t pid, std::uint64_t address, std::uint64_t length);
};

// A peer's shared mapping of a file, mapped here, too. Copies beyond the end of a truncated file return an error.
class file_mapping
{
public:
    // Returns NULL if the range is not one shared mapping of a file that this process can open. A direct access region
    // must also be mappable so that its cache lines are durable once written back.
    static std::shared_ptr<file_mapping> open(
            std::uint32_t pid, std::uint64_t address, std::uint64_t length, region_kind kind);
    static std::shared_ptr<file_mapping> open(
            const file_part &part, std::uint64_t address, std::uint64_t length, region_kind kind);
    ~file_mapping();

    // Offsets are relative to the peer's address `address`. Return false if the range is outside the mapping or its
    // memory is gone: the owner may have changed the length of the region since.
    bool write(std::uint64_t offset, std::span<const iovec> from) noexcept
    {
        const std::uint64_t bytes = total_length(from);
        if (!covers(offset, bytes))
            return false;
        if (populated_ != nullptr && bytes > 0)
            populate(offset, bytes);
        return copy_into(at_ + offset, from);
    }
    bool read(std::uint64_t offset, std::span<const iovec> to) noexcept;
    int write_back(std::uint64_t offset, std::size_t bytes) const noexcept; // returns 0 or an errno value

private:
    file_mapping(std::uint64_t length, region_kind kind);
    bool covers(std::uint64_t offset, std::uint64_t bytes) const noexcept
    {
        return offset <= size_ && bytes <= size_ - offset;
    }
    static bool copy_into(std::byte *file, std::span<const iovec> from) noexcept;

    // Populates the surrounding pages in one call: a page fault takes many times as long as the first write to a page.
    static constexpr std::size_t populated_at_once = std::size_t{256} << 10;
    void populate(std::uint64_t offset, std::uint64_t bytes) noexcept
    {
        const std::uint64_t from = lead() + offset;
        SOFTRDMA_ASSERT(bytes > 0 && from + bytes <= whole_size_);
        for (std::uint64_t i = from / populated_at_once; i <= (from + bytes - 1) / populated_at_once; ++i) {
            if (!populated_[i].load(std::memory_order_relaxed)) [[unlikely]]
                populate_chunk(i);
        }
    }
    void populate_chunk(std::uint64_t index) noexcept;
    std::uint64_t lead() const noexcept { return static_cast<std::uint64_t>(at_ - static_cast<std::byte *>(whole_)); }

    void *whole_ = nullptr;
    std::size_t whole_size_ = 0;
    std::byte *at_ = nullptr;
    const std::uint64_t size_; // bytes of the region
    const bool direct_access_;
    // True for each populated chunk. NULL if populating would dirty pages that must then be written out.
    std::unique_ptr<std::atomic<bool>[]> populated_;
};

} // namespace softrdma
