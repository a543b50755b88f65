// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "world.hpp"

namespace simulation
{

// The content of a file: what processes see, and what is there after a power failure. In the real system it is only a
// name with a size and a lock.
struct file {
    std::string path;
    std::byte *live = nullptr;
    std::vector<std::byte> durable;
    std::vector<std::byte> backup;
    bool is_restored = false; // from the backup, since the last opening
    // As fstat() returns them. A store through a mapping does not change the time, as in tmpfs.
    std::uint64_t inode = 0;
    std::int64_t changed = 0;

    std::size_t size() const { return durable.size(); }
    void resize(std::size_t size);
    void persist(std::size_t offset, std::size_t length);
};

class storage
{
public:
    explicit storage(world &in_);
    ~storage();

    // The processor's cache is what a power failure takes; otherwise it is the kernel's.
    bool persistent_memory = true;
    // Used part of a file: a part of a target is longer than the set.
    static constexpr std::size_t largest = 8 << 20;
    std::size_t used = largest;

    file &of(int fd);
    // Returns NULL if the address is not in a file.
    file *at(const std::byte *address);
    file *named(const std::string &path);
    void persist(const std::byte *from, std::size_t length);
    std::int64_t next_time() { return ++clock_; }
    // Replaces the content of a file by that of its backup.
    enum class restored {
        below_file_system, // not even a time changes
        in_place,
        as_other_file
    };
    void back_up(const std::string &path);
    void restore(const std::string &path, restored how);
    // Gives each word of these files that was not durable either its old or its new value.
    void lose_power(const std::string &directory);

private:
    world &in_;
    std::int64_t clock_ = 0;
    std::map<std::pair<unsigned long, unsigned long>, file> files_; // key: device and inode
    std::map<std::string, file *> by_name_;                         // files keep their names
};

extern storage *disks;

} // namespace simulation
