// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>

struct pmem2_map;

namespace bench
{

// Memory that the peer reads and writes: anonymous, or of a file or PMem device mapped by libpmem2.
class target_memory
{
public:
    explicit target_memory(std::size_t size);
    // Creates an unnamed file in the directory path, or overwrites the DAX device at path.
    target_memory(std::size_t size, const std::string &path);
    ~target_memory();
    target_memory(const target_memory &) = delete;
    target_memory &operator=(const target_memory &) = delete;

    std::byte *data() const { return data_; }
    std::size_t size() const { return size_; }
    // Makes stores of this process as durable as the memory permits: writes back cache lines or pages.
    void persist(std::size_t offset, std::size_t len) const
    {
        if (persist_ != nullptr)
            persist_(data_ + offset, len);
    }

private:
    std::byte *data_ = nullptr;
    std::size_t size_;
    pmem2_map *map_ = nullptr;
    void (*persist_)(const void *, std::size_t) = nullptr;
};

struct target_kind {
    std::string word;        // dram, file or pmem
    std::string description; // "a file on ext4 at /var/tmp"
    std::string persistence; // guarantee of a persistent flush
};

// path is empty for anonymous memory. direct_write: the server declares direct write to PMem.
target_kind describe_target(const std::string &path, bool on_softrdma, bool direct_write);

} // namespace bench
