// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "config/failure.hpp"
#include "store/part.hpp"

namespace rpmemd
{

namespace
{

namespace fs = std::filesystem;

constexpr const char *numbered_extension = ".pmem";

void collect(const std::string &directory, std::map<unsigned, part_line> &to)
{
    std::error_code error;
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
        const std::string stem = entry->path().stem();
        unsigned number = 0;
        const auto [last, failed] = std::from_chars(stem.data(), stem.data() + stem.size(), number);
        if (entry->path().extension() != numbered_extension || failed != std::errc() || *last != '\0')
            continue;
        std::error_code size_error;
        const std::uintmax_t size = fs::file_size(entry->path(), size_error);
        if (size_error)
            throw system_failure("cannot stat the part " + entry->path().string(), size_error.value());
        if (!to.emplace(number, part_line{entry->path(), size}).second)
            throw failure(EINVAL, "part number " + std::to_string(number) + ": found in two directories of the set");
    }
    if (error)
        throw system_failure("cannot read the directory " + directory, error.value());
}

std::vector<part_line> lines_of_directories(const poolset &set, const part_options &options)
{
    if (!std::ranges::all_of(set.parts, is_directory))
        throw failure(EINVAL, "set: directories and files must not be mixed");
    if (!set.single_header)
        throw failure(EINVAL, "set: directories require OPTION SINGLEHDR");
    if (options.create)
        throw failure(
                ENOTSUP, "set: a pool in directories can only be opened, not created (list files of a fixed size)");
    std::map<unsigned, part_line> found;
    for (const part_line &line : set.parts)
        collect(line.path, found);
    std::vector<part_line> lines;
    for (const auto &[number, line] : found) {
        if (number != lines.size())
            throw failure(ENOENT,
                    "part number " + std::to_string(lines.size()) + ": not found in the directories of the set");
        lines.push_back(line);
    }
    if (lines.empty())
        throw failure(ENOENT, "set: parts not found in its directories");
    return lines;
}

bool is_missing(const part_line &line)
{
    std::error_code ignored;
    return !fs::exists(fs::symlink_status(line.path, ignored));
}

void check_devices(const std::vector<part> &parts)
{
    const auto devices = std::ranges::count_if(parts, &part::is_device);
    if (devices != 0 && static_cast<std::size_t>(devices) != parts.size())
        throw failure(EINVAL, "set: DAX devices and files must not be mixed");
}

} // namespace

bool is_directory(const part_line &line)
{
    std::error_code ignored;
    return fs::is_directory(line.path, ignored);
}

std::vector<part> open_parts(const poolset &set, const part_options &options)
{
    const std::vector<part_line> lines =
            std::ranges::any_of(set.parts, is_directory) ? lines_of_directories(set, options) : set.parts;
    std::vector<part> parts;
    try {
        for (const part_line &line : lines) {
            const std::size_t count = parts.size();
            if (options.may_grow && !options.create && count != 0 && is_missing(line))
                break;
            if (count != 0 && parts.back().size() < lines[count - 1].size && !options.any_size)
                throw failure(
                        EINVAL, "part " + parts.back().path() + ": smaller than in the set, but not the last one");
            parts.emplace_back(line, options);
        }
        check_devices(parts);
    } catch (...) {
        for (part &p : parts)
            if (p.was_created())
                p.remove();
        throw;
    }
    return parts;
}

} // namespace rpmemd
