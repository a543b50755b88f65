// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "store/part.hpp"
#include "store/pool_header.hpp"
#include "store/pool_memory.hpp"
#include "store/poolset.hpp"

namespace rpmemd
{

// Parts of a set, locked and mapped.
class pool
{
public:
    // A failed create() leaves no files or headers. A set without headers has all-zero attributes.
    static pool create(
            const config &settings, const std::string &set_name, std::uint64_t size, const pool_attributes &attributes);
    static pool open(const config &settings, const std::string &set_name, std::uint64_t size);
    // Opens the existing pool, or creates the parts like create(), but without headers, with the maximum size of the
    // set. The caller then removes what was created with rollback_create().
    static pool probe(const config &settings, const poolset &set);

    // Callable without the lock of the pool's owner: add() keeps the memory that it replaces.
    const pool_memory &memory() const { return *std::atomic_ref(memory_).load(); }
    pool_memory &memory() { return *std::atomic_ref(memory_).load(); }
    // Stops the threads of pool_memory::populate(), which change the times of the parts.
    void stop_populating();
    // New parts, and the memory of all parts. NULL if the parts are long enough.
    struct extension {
        std::vector<part> parts;
        std::unique_ptr<pool_memory> memory;
    };
    // Makes the files long enough for `size` bytes, according to the current set file. The bytes after `from` become
    // zero, durably. Not for pools with headers. Other threads may use the pool. On failure, adds no file.
    extension make_extension(
            const config &settings, const std::string &set_name, std::uint64_t from, std::uint64_t size);
    void add(extension created);
    // Returns the file descriptors of the parts, which stay owned by the pool.
    std::vector<int> files() const;
    bool has_header() const { return !set_.no_headers; }
    bool exists() const;
    const std::vector<part> &parts() const { return parts_; }
    pool_attributes attributes() const;
    void set_attributes(const pool_attributes &attributes);
    // Removes the parts that this object created, and the headers that it wrote to others.
    void rollback_create();

private:
    pool(const config &settings, poolset set, std::uint64_t size, bool create);
    void use(std::unique_ptr<pool_memory> memory);
    std::vector<part_line> check_growth(const poolset &listed, std::uint64_t size) const;
    std::size_t header_count() const;
    std::byte *header_address(std::size_t index) const;
    std::vector<header_page> header_pages() const;
    int persist_header(std::size_t index);
    void write_header(std::size_t index, const pool_header &header);
    void write_new_headers(const pool_attributes &attributes);

    poolset set_;
    std::vector<part> parts_;
    std::vector<std::unique_ptr<pool_memory>> memories_;
    mutable pool_memory *memory_ = nullptr; // the last one
    bool wrote_headers_ = false;
    std::vector<replica::file_map> headers_; // headers of the parts after the first, which memory_ does not contain
};

// Implements rpmemd --remove. With settings.force, logs errors and continues.
void remove_pool(const config &settings, const std::string &set_name);

} // namespace rpmemd
