// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

// Replica of the client's memory on this machine: librpmem, loaded on use, and its daemon.
namespace bench::replica
{

class pool
{
public:
    // `memory` must start at a page and be a multiple of the page size. One thread at a time may use a lane. The part
    // is a file in the directory `place`, or in memory if `place` is empty. The destructor deletes it.
    pool(std::span<std::byte> memory, unsigned lanes, const std::string &directory);
    ~pool();
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;

    void persist(std::size_t offset, std::size_t len, unsigned lane);
    void flush(std::size_t offset, std::size_t len, unsigned lane);
    void drain(unsigned lane);

    // The replica, mapped from its file into this process.
    std::byte *part() const;

private:
    class library;
    class files;
    std::unique_ptr<files> files_;
    std::unique_ptr<library> library_;
    void *handle_ = nullptr; // the pool of librpmem
};

} // namespace bench::replica
