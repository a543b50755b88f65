// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <sys/types.h>

namespace softrdma
{

// A mapping of a process, as in /proc/PID/maps and in the headings of /proc/PID/smaps.
struct mapped_area {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    char permissions[5] = {};
    std::uint64_t offset = 0;
    dev_t device = 0;
    ino_t inode = 0;
    std::string path; // empty for anonymous memory

    bool parse(const char *line);
    bool is_readable() const noexcept { return permissions[0] == 'r'; }
    bool is_writable() const noexcept { return permissions[1] == 'w'; }
    bool is_shared() const noexcept { return permissions[3] == 's'; }
};

// Reads the lines of a file in /proc. A line contains a path, so its length varies.
class proc_lines
{
public:
    explicit proc_lines(const char *path);
    explicit operator bool() const noexcept { return file_ != nullptr; }
    const char *next(); // returns the next line, or NULL at the end

private:
    struct file_closer {
        void operator()(FILE *f) const noexcept { fclose(f); }
    };
    struct line_deleter {
        void operator()(char *line) const noexcept;
    };

    std::unique_ptr<FILE, file_closer> file_;
    std::unique_ptr<char, line_deleter> line_;
    std::size_t capacity_ = 0;
};

std::uintptr_t page_size() noexcept;

} // namespace softrdma
