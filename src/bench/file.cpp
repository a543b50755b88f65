// SPDX-License-Identifier: BSD-3-Clause
#include "file.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace bench
{

namespace
{

class descriptor
{
public:
    explicit descriptor(int fd) : fd_(fd) {}
    ~descriptor()
    {
        if (fd_ >= 0)
            ::close(fd_);
    }
    descriptor(const descriptor &) = delete;
    descriptor &operator=(const descriptor &) = delete;
    int get() const { return fd_; }
    bool valid() const { return fd_ >= 0; }
    // Network file systems report a full disk here.
    int close() { return ::close(std::exchange(fd_, -1)); }

private:
    int fd_;
};

[[noreturn]] void fail(const std::string &path, const char *verb, int error)
{
    throw std::runtime_error(path + ": cannot " + verb + ": " + std::generic_category().message(error));
}

bool write_all(int fd, const std::string &text)
{
    std::size_t done = 0;
    while (done < text.size()) {
        const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
        if (written < 0 && errno != EINTR)
            return false;
        done += written > 0 ? static_cast<std::size_t>(written) : 0;
    }
    return true;
}

// The entry of the renamed file must survive a power cut as well.
void sync_directory_of(const std::string &path)
{
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const descriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.valid())
        (void)::fsync(fd.get());
}

// What is not a regular file, /dev/stdout for one, is written in place.
void write_in_place(const std::string &path, const std::string &text)
{
    descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd.valid() || !write_all(fd.get(), text) || fd.close() != 0)
        fail(path, "write", errno);
}

} // namespace

std::string read_file(const std::string &path)
{
    const descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid())
        fail(path, "open", errno);
    std::string text;
    std::array<char, 65536> chunk;
    for (;;) {
        const ssize_t got = ::read(fd.get(), chunk.data(), chunk.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            fail(path, "read", errno);
        if (got == 0)
            return text;
        text.append(chunk.data(), static_cast<std::size_t>(got));
    }
}

void replace_file(const std::string &path, const std::string &text)
{
    struct stat old = {};
    const bool exists = ::stat(path.c_str(), &old) == 0;
    if (exists && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode)) {
        write_in_place(path, text);
        return;
    }

    std::string temporary = path + ".XXXXXX";
    descriptor fd(::mkostemp(temporary.data(), O_CLOEXEC));
    if (!fd.valid())
        fail(path, "create", errno);
    const mode_t mask = ::umask(0);
    ::umask(mask);
    const mode_t mode = exists ? old.st_mode & 07777 : 0666 & ~mask;
    const bool written = write_all(fd.get(), text) && ::fchmod(fd.get(), mode) == 0 && ::fsync(fd.get()) == 0 &&
                         fd.close() == 0 && ::rename(temporary.c_str(), path.c_str()) == 0;
    if (!written) {
        const int error = errno;
        (void)::unlink(temporary.c_str());
        fail(path, "write", error);
    }
    sync_directory_of(path);
}

} // namespace bench
