// SPDX-License-Identifier: BSD-3-Clause
#include "reading.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

#include "sync_directory.hpp"

namespace mirror_tool
{

namespace
{

constexpr std::size_t chunk_size = 64 * 1024;

// New file, which the destructor removes unless it has replaced another one.
class new_file
{
public:
    explicit new_file(const std::string &path) : path_(path), temporary_(path + ".XXXXXX")
    {
        struct stat replaced {
        };
        if (stat(path.c_str(), &replaced) == 0 && !S_ISREG(replaced.st_mode))
            throw failure("cannot write " + path + ": not a regular file (use the name of a file)", exit_failed);
        fd_ = mkostemp(temporary_.data(), O_CLOEXEC);
        if (fd_ < 0)
            throw error();
    }
    ~new_file()
    {
        if (!temporary_.empty())
            unlink(temporary_.c_str());
        close(fd_);
    }
    new_file(const new_file &) = delete;
    new_file &operator=(const new_file &) = delete;

    // Skips chunks of zeros, which stay holes.
    void write(std::span<const char> bytes)
    {
        if (ftruncate(fd_, static_cast<off_t>(bytes.size())) != 0)
            throw error();
        for (std::size_t at = 0; at < bytes.size(); at += chunk_size)
            write_chunk(bytes.subspan(at, std::min(chunk_size, bytes.size() - at)), at);
    }
    void replace()
    {
        if (fsync(fd_) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0)
            throw error();
        temporary_.clear();
        errno = sync_directory_of(path_);
        if (errno != 0)
            throw error();
    }

private:
    failure error() const { return failure("cannot write " + path_ + ": " + std::strerror(errno), exit_failed); }
    void write_chunk(std::span<const char> chunk, std::size_t at)
    {
        if (std::ranges::all_of(chunk, [](char c) { return c == 0; }))
            return;
        while (!chunk.empty()) {
            const ssize_t written = pwrite(fd_, chunk.data(), chunk.size(), static_cast<off_t>(at));
            if (written < 0 && errno == EINTR)
                continue;
            if (written < 0)
                throw error();
            at += static_cast<std::size_t>(written);
            chunk = chunk.subspan(static_cast<std::size_t>(written));
        }
    }

    const std::string path_;
    std::string temporary_;
    int fd_ = -1;
};

} // namespace

image_of_set::image_of_set(const rpma_mirror_cfg *cfg, bool any_time, int timeout_ms)
{
    call([&] { return rpma_mirror_map_read_only(cfg, any_time ? RPMA_MIRROR_F_ANY_TIME : 0, timeout_ms, &reader_); });
    call([&] { return rpma_mirror_get_image(reader_, image_.get()); });
}

void image_of_set::write(const std::string &path) const
{
    new_file created(path);
    created.write({static_cast<const char *>(image_->address), image_->length});
    created.replace();
}

} // namespace mirror_tool
