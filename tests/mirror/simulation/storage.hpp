// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "world.hpp"

namespace simulation
{

// Content of a file: what processes see, and what remains after a power failure. The real file has only the name, the
// size and the lock.
struct file {
    std::string path;
    std::byte *live = nullptr;
    std::vector<std::byte> durable;
    std::vector<std::byte> backup;
    std::uint64_t backup_length = 0; // length of the set at the time of the backup
    bool is_restored = false;        // from the backup, since the last opening
    // Size of the real file, which may exceed the used part, and the size that remains after a power failure.
    std::size_t real_size = 0, durable_size = 0;
    std::vector<std::pair<std::size_t, std::size_t>> punched; // holes, begin and end, that fsync() makes durable
    // Values for fstat(). A store through a mapping changes the time only if its memory is registered later.
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

    // A power failure loses the processor's cache; if false, the kernel's page cache.
    bool persistent_memory = true;
    // Maximum used part of a file. The part of a target is longer than the set.
    static constexpr std::size_t max_used = 8 << 20;
    std::size_t used = max_used;
    std::string full; // directory on a disk without free blocks, or empty

    file &of(int fd);
    // Returns NULL if the address is not in a file.
    file *at(const std::byte *address);
    file *named(const std::string &path);
    void make(const std::string &path, std::size_t length);
    bool is_full(const file &f) const { return !full.empty() && f.path.starts_with(full); }
    void set_length(file &f, std::size_t length) const;
    void forget(const std::string &path) { by_name_.erase(path); }
    void persist(const std::byte *from, std::size_t length);
    std::int64_t next_time() { return ++clock_; }
    // Method that replaces the content of a file with its backup.
    enum class restored {
        below_file_system, // its times do not change
        in_place,
        as_other_file
    };
    void back_up(const std::string &path, std::uint64_t set_length);
    // Returns false without a backup of the current size, or if it is of another length of the set than the one given.
    bool restore(const std::string &path, restored how, std::uint64_t set_length = 0);
    // Simulates a power failure: each word of these files that was not durable gets either its old or its new value.
    void lose_power(const std::string &directory);

private:
    world &in_;
    std::int64_t clock_ = 0;
    std::map<std::pair<unsigned long, unsigned long>, file> files_; // key: device and inode
    std::map<std::string, file *> by_name_;                         // files keep their names
};

extern storage *disks;

} // namespace simulation
