// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

// Directory that is removed with its contents. Failures end the test.
struct scratch_directory {
    std::string path;

    explicit scratch_directory(const std::string &parent);
    ~scratch_directory();
    scratch_directory(const scratch_directory &) = delete;
    scratch_directory &operator=(const scratch_directory &) = delete;

    // Writes a file, in a new directory if the name contains one.
    void write(const std::string &name, const std::string &text, unsigned mode = 0600) const;
    std::string read(const std::string &name) const;
    std::string read(const std::string &name, std::uint64_t offset, std::uint64_t bytes) const;
    bool has(const std::string &name) const;
};
