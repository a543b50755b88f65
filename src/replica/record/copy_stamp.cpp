// SPDX-License-Identifier: BSD-3-Clause
#include "record/copy_stamp.hpp"

#include <algorithm>
#include <array>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace replica
{

namespace
{

constexpr std::uint64_t sampled_page = 4096;
constexpr std::uint64_t max_sampled = 64;

// Extends the digest of a sequence: hashes the current digest with the next item.
template<class T>
void extend(siphash_result &digest, const T &item)
{
    digest = siphash_128(digest, std::as_bytes(std::span(&item, 1)));
}

bool read_memory(const std::byte *from, std::span<std::byte> to)
{
    const iovec local{to.data(), to.size()}, remote{const_cast<std::byte *>(from), to.size()};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(to.size());
}

// Hashes the first page, and one page of each 64th of the content. Returns false if a page cannot be read.
bool take_sample(std::span<const std::byte> content, std::uint64_t number, siphash_result &to)
{
    std::array<std::byte, sampled_page> page;
    const std::uint64_t pages = content.size() / sampled_page;
    const std::uint64_t step = std::max<std::uint64_t>(pages / max_sampled, 1);
    for (std::uint64_t first = 0; first < pages; first += step) {
        const std::uint64_t at = first == 0 ? 0 : std::min(first + number % step, pages - 1);
        if (!read_memory(content.data() + at * sampled_page, page))
            return false;
        extend(to, page);
    }
    return true;
}

bool add_files(std::span<const int> files, std::uint64_t length, bool with_times, copy_stamp &to)
{
    bool devices = false;
    for (const int file : files) {
        struct stat facts {
        };
        if (fstat(file, &facts) != 0)
            return false;
        if (!S_ISREG(facts.st_mode)) {
            devices = true;
            continue;
        }
        to.size += static_cast<std::uint64_t>(facts.st_size);
        extend(to.files, static_cast<std::uint64_t>(facts.st_ino));
        extend(to.times, std::array{static_cast<std::int64_t>(facts.st_ctim.tv_sec),
                                 static_cast<std::int64_t>(facts.st_ctim.tv_nsec)});
    }
    if (devices)
        to.size = length;
    if (devices || !with_times)
        to.times = {};
    return true;
}

} // namespace

copy_stamp stamp_files(std::span<const int> files, std::uint64_t length)
{
    copy_stamp stamp;
    return add_files(files, length, false, stamp) ? stamp : copy_stamp();
}

copy_stamp stamp_inodes(std::span<const int> files)
{
    copy_stamp stamp = stamp_files(files, 0);
    stamp.size = copy_stamp::unknown_size;
    return stamp;
}

bool has_stamp(std::span<const int> files, std::uint64_t length, const copy_stamp &stored)
{
    if (stored.size != copy_stamp::unknown_size)
        return stored == stamp_files(files, length);
    for (std::size_t count = files.size(); count > 0; --count)
        if (stored == stamp_inodes(files.first(count)))
            return true;
    return false;
}

copy_stamp stamp_content(std::span<const int> files, std::span<const std::byte> content, std::uint64_t number)
{
    copy_stamp stamp;
    return add_files(files, content.size(), true, stamp) && take_sample(content, number, stamp.sample) ? stamp
                                                                                                       : copy_stamp();
}

copy_stamp settle(std::span<const int> files, std::span<const std::byte> content, std::uint64_t number)
{
    for (const int file : files) {
        struct stat facts {
        };
        if (fstat(file, &facts) != 0 || (S_ISREG(facts.st_mode) && (futimens(file, nullptr) != 0 || fsync(file) != 0)))
            return {};
    }
    return stamp_content(files, content, number);
}

copy_stamp current_stamp(
        std::span<const int> files, std::span<const std::byte> content, std::uint64_t number, bool is_quiet)
{
    return is_quiet ? settle(files, content, number) : stamp_files(files, content.size());
}

stamp_match match(const copy_stamp &stored, const copy_stamp &found)
{
    if (stored.size == 0)
        return stamp_match::unknown;
    if (stored != found)
        return stamp_match::changed;
    return stored.times == siphash_result{} ? stamp_match::unknown : stamp_match::same;
}

} // namespace replica
