// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/fd_owner.hpp"
#include "region/file_map.hpp"
#include "store/poolset.hpp"

namespace rpmemd
{

struct part_options {
    bool create = false;
    bool follow_symlinks = false;
    std::optional<mode_t> umask;
    bool takes_over = false; // take locks over from the daemon of a client that has gone
    bool any_size = false;   // accept sizes other than in the set: a pool to remove may be damaged
    bool may_grow = false;   // accept parts that growth did not extend or create yet; with `create`, extend them
};

// File or device of a pool, open and locked against other daemons.
class part
{
public:
    // On failure, removes a created file. A file of 0 bytes counts as missing: a killed creation leaves it.
    part(const part_line &line, const part_options &options);
    part(part &&) noexcept = default;
    part &operator=(part &&) noexcept = default;

    int fd() const { return file_.get(); }
    const std::string &path() const { return path_; }
    std::uint64_t size() const { return size_; }
    bool is_device() const { return is_device_; }
    bool was_created() const { return created_; }
    std::uint64_t creation_time() const; // seconds
    void map(replica::file_map &to, std::uint64_t offset, std::uint64_t length) const;
    replica::file_map map_header() const;
    // Extends the file by zeros, durably. If it throws failure, the size is unchanged.
    void extend(std::uint64_t size);
    // Removes the file. For a device DAX, only clears the header.
    void remove();

private:
    void open_file(const part_options &options);
    void open_and_lock(const part_options &options);
    void lock(bool takes_over);
    bool is_removed() const;
    void check_kind();
    void check_size(std::uint64_t listed_size, bool may_grow) const;
    void allocate(std::uint64_t size);
    int rollback_creation() const;

    std::string path_;
    replica::fd_owner file_;
    std::uint64_t size_ = 0;
    bool is_device_ = false;
    bool created_ = false;
    bool was_empty_ = false; // the file existed with 0 bytes
};

bool is_directory(const part_line &line);

// Opens the parts of the lines. A directory contains numbered files with their actual sizes, and cannot be created
// (ENOTSUP). With options.may_grow, the last part can be smaller than listed, and parts can be missing after it.
std::vector<part> open_parts(const poolset &set, const part_options &options);

} // namespace rpmemd
