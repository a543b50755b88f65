// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <sys/uio.h>

namespace softrdma::local
{

// A peer's shared mapping of a file, mapped here as well. Copies that meet the end of a file which its owner has
// truncated report that instead of ending this process.
class file_mapping
{
public:
    // NULL if the range is not one shared file that this process can open. `direct_access`: only as a mapping whose
    // cache lines are durable once written back.
    static std::shared_ptr<file_mapping> open(
            std::uint32_t pid, std::uint64_t address, std::uint64_t length, bool direct_access);
    ~file_mapping();

    // Offsets are relative to the peer's address `address`. False if the memory is not there any more, or not inside:
    // how long a region is, its owner may have changed since.
    bool write(std::uint64_t offset, std::span<const iovec> from) noexcept;
    bool read(std::uint64_t offset, std::span<const iovec> to) noexcept;
    // Makes a range durable. 0 or an errno value.
    int write_back(std::uint64_t offset, std::size_t bytes) const noexcept;

private:
    file_mapping() = default;
    bool covers(std::uint64_t offset, std::uint64_t bytes) const noexcept
    {
        return offset <= size_ && bytes <= size_ - offset;
    }
    bool covers(std::uint64_t offset, std::span<const iovec> pieces) const noexcept;

    void *whole_ = nullptr;
    std::size_t whole_size_ = 0;
    std::byte *at_ = nullptr;
    std::uint64_t size_ = 0; // of what is the region's
    bool direct_access_ = false;
};

} // namespace softrdma::local
