// SPDX-License-Identifier: BSD-3-Clause
#include "store/part.hpp"

#include <algorithm>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.hpp"
#include "config/failure.hpp"
#include "config/log.hpp"
#include "store/pool_header.hpp"
#include "store/takeover.hpp"
#include "sync_directory.hpp"

namespace rpmemd
{

namespace
{

constexpr mode_t usual_mode = 0600;
constexpr int max_open_attempts = 4;
constexpr int lock_interval_ms = 10;

struct stat facts_of(const replica::fd_owner &file, const std::string &path)
{
    struct stat facts {
    };
    if (fstat(file.get(), &facts) != 0)
        throw system_failure("cannot stat the part " + path);
    return facts;
}

} // namespace

part::part(const part_line &line, const part_options &options) : path_(line.path)
{
    open_and_lock(options);
    try {
        const struct stat facts = facts_of(file_, path_);
        was_empty_ = !created_ && options.create && line.size != 0 && S_ISREG(facts.st_mode) && facts.st_size == 0;
        created_ = created_ || was_empty_;
        if (created_)
            allocate(line.size);
        check_kind();
        // The file of a creation or growth that was killed. The set file may list a larger size since then.
        if (options.create && options.may_grow && !is_device_ && size_ < line.size)
            extend(line.size);
        if (!options.any_size)
            check_size(line.size, options.may_grow);
    } catch (...) {
        if (created_)
            rollback_creation();
        throw;
    }
}

int part::rollback_creation() const
{
    return was_empty_ ? ftruncate(file_.get(), 0) : unlink(path_.c_str());
}

void part::open_file(const part_options &options)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (options.follow_symlinks ? 0 : O_NOFOLLOW);
    file_ = replica::fd_owner(open(path_.c_str(), flags));
    if (!file_.valid() && errno == ENOENT && options.create) {
        struct stat link {
        };
        if (lstat(path_.c_str(), &link) == 0)
            throw failure(ENOENT, "part " + path_ + ": symbolic link to a file that does not exist (remove the link)");
        const mode_t before = ::umask(0);
        const mode_t mode = options.umask ? 0666 & ~*options.umask : usual_mode & ~before;
        file_ = replica::fd_owner(open(path_.c_str(), flags | O_CREAT | O_EXCL, mode));
        const int error = errno;
        ::umask(before);
        errno = error;
        created_ = file_.valid();
    }
    if (!file_.valid() && errno == ELOOP)
        throw failure(
                EACCES, "part " + path_ +
                                ": is a symbolic link (list the file itself, or start rpmemd with --follow-symlinks)");
    if (!file_.valid())
        throw system_failure("cannot open the part " + path_);
}

// Retries if another session removed the file before the lock was acquired.
void part::open_and_lock(const part_options &options)
{
    for (int attempt = 0; attempt < max_open_attempts; ++attempt) {
        open_file(options);
        try {
            lock(options.takes_over);
        } catch (...) {
            if (created_)
                unlink(path_.c_str());
            throw;
        }
        if (!is_removed())
            return;
        created_ = false;
    }
    throw failure(EBUSY, "part " + path_ + ": in use: other sessions create and remove it");
}

bool part::is_removed() const
{
    const struct stat facts = facts_of(file_, path_);
    return S_ISREG(facts.st_mode) && facts.st_nlink == 0;
}

void part::lock(bool takes_over)
{
    const replica::deadline until(takeover_time_ms);
    for (bool requested = false; flock(file_.get(), LOCK_EX | LOCK_NB) != 0; requested = true) {
        if (errno != EWOULDBLOCK)
            throw system_failure("cannot lock the part " + path_);
        if (until.passed() || !takes_over || (!requested && !request_takeover(file_.get())))
            throw failure(EBUSY, "part " + path_ + ": in use by another session, or listed twice in the set");
        poll(nullptr, 0, lock_interval_ms);
    }
}

void part::allocate(std::uint64_t size)
{
    if (size == 0)
        throw failure(EINVAL, "part " + path_ + ": AUTO requires a device, which does not exist");
    if (const int error = replica::allocate_file(file_.get(), size); error != 0)
        throw system_failure("cannot allocate " + std::to_string(size) + " bytes for the part " + path_, error);
    if (fsync(file_.get()) != 0)
        throw system_failure("cannot sync the part " + path_);
    const int error = sync_directory_of(path_);
    if (error != 0 && error != EACCES && error != EINVAL)
        throw system_failure("cannot sync the directory of the part " + path_, error);
}

void part::extend(std::uint64_t size)
{
    int error = replica::allocate_file(file_.get(), size);
    if (error == 0 && fsync(file_.get()) != 0)
        error = errno;
    if (error != 0) {
        // Also frees the blocks that were allocated beyond the end.
        (void)ftruncate(file_.get(), static_cast<off_t>(size_));
        throw system_failure("cannot extend the part " + path_ + " to " + std::to_string(size) + " bytes", error);
    }
    size_ = size;
}

void part::check_kind()
{
    const struct stat facts = facts_of(file_, path_);
    is_device_ = S_ISCHR(facts.st_mode);
    size_ = static_cast<std::uint64_t>(facts.st_size);
    if (is_device_ ? replica::source_size(file_.get(), &size_) != 0 : !S_ISREG(facts.st_mode))
        throw failure(EINVAL, "part " + path_ + ": neither a regular file nor a DAX device");
    // Only a warning, because the daemon of PMDK created parts with this mode.
    if (!is_device_ && (facts.st_mode & S_IWOTH) != 0)
        log(log_level::warn, "part " + path_ + ": writable by all users (chmod 600)");
}

void part::check_size(std::uint64_t listed_size, bool may_grow) const
{
    if (!is_device_ && listed_size == 0)
        throw failure(EINVAL, "part " + path_ + ": AUTO requires a device, but this is a file");
    if (listed_size != 0 && size_ != listed_size && !(may_grow && !is_device_ && size_ < listed_size))
        throw failure(EINVAL, "part " + path_ + ": " + std::to_string(size_) + " bytes, but " +
                                      std::to_string(listed_size) + " in the set");
}

std::uint64_t part::creation_time() const
{
    return static_cast<std::uint64_t>(facts_of(file_, path_).st_ctim.tv_sec);
}

void part::map(replica::file_map &to, std::uint64_t offset, std::uint64_t length) const
{
    if (const int error = to.map(file_.get(), offset, length); error != 0)
        throw failure(replica::errno_from(error), "cannot map the part " + path_ + ": " + pmem2_errormsg());
    to.add();
}

replica::file_map part::map_header() const
{
    std::uint64_t alignment = 1;
    replica::file_map header;
    // A mapping of a device must be a multiple of the page size of the device.
    if (const int error = replica::source_alignment(file_.get(), &alignment); error != 0)
        throw failure(replica::errno_from(error), "cannot map the part " + path_ + ": " + pmem2_errormsg());
    map(header, 0, (header_size + alignment - 1) / alignment * alignment);
    return header;
}

void part::remove()
{
    if (is_device_) {
        const replica::file_map header = map_header();
        std::fill_n(header.address(), header_size, std::byte{0});
        if (const int error = header.persist({0, header_size}); error != 0)
            throw system_failure("cannot clear the header of " + path_, error);
    } else if (rollback_creation() != 0) {
        throw system_failure("cannot remove the part " + path_);
    }
}

} // namespace rpmemd
