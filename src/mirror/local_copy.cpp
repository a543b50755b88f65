// SPDX-License-Identifier: BSD-3-Clause
#include "local_copy.hpp"

#include <algorithm>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.hpp"
#include "membership.hpp"
#include "sync_directory.hpp"

namespace mirror
{

namespace
{

void check(int error, const std::string &message)
{
    if (error != 0)
        throw failure(RPMA_MIRROR_E_SYSTEM, message + ": " + pmem2_errormsg(), replica::errno_from(error));
}

struct file_kind {
    std::uint64_t size;
    bool is_device;
};

// Returns size and kind of the file. Throws failure unless it is a regular file or a DAX device.
file_kind kind_of(int fd, const std::string &path)
{
    struct stat found {
    };
    if (fstat(fd, &found) != 0)
        throw system_failure("cannot use " + path);
    if (S_ISREG(found.st_mode))
        return {static_cast<std::uint64_t>(found.st_size), false};
    std::uint64_t size = 0;
    if (!S_ISCHR(found.st_mode) || replica::source_size(fd, &size) != 0)
        throw failure(RPMA_MIRROR_E_INVAL, path + ": neither a regular file nor a DAX device");
    return {size, true};
}

std::string remedy(const settings &of)
{
    return " (put the right file back; or remove it and " + of.state_path +
           ", and it is copied from a target when the set is opened)";
}

// Rejects a file whose content is too short for the set. A missing or empty file will be allocated.
void check_data(const std::string &path, std::uint64_t length)
{
    // O_NONBLOCK: opening a named pipe must not block the program.
    const replica::fd_owner file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file.valid() && errno == ENOENT)
        return;
    if (!file.valid())
        throw system_failure("cannot open " + path);
    if (const std::uint64_t size = kind_of(file.get(), path).size; size != 0 && size < length)
        throw failure(RPMA_MIRROR_E_INVAL, path + ": " + std::to_string(size) + " bytes, but " +
                                                   std::to_string(length) + " in the set (remove it, or extend it)");
}

// Allocates the bytes of the copy beyond its length. On failure, restores the size of the file.
void allocate(int fd, const std::string &path, std::uint64_t current_length, std::uint64_t length)
{
    const std::uint64_t size = kind_of(fd, path).size;
    const auto begin = static_cast<off_t>(current_length), end = static_cast<off_t>(length);
    int error = posix_fallocate(fd, begin, end - begin);
    // The file's bytes behind the copy can have any content.
    const off_t used = std::min(static_cast<off_t>(size), end);
    if (error == 0 && used > begin) {
        if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, used - begin) != 0)
            error = errno;
        else
            error = posix_fallocate(fd, begin, used - begin);
    }
    if (error == 0 && fsync(fd) != 0)
        error = errno;
    if (error != 0) {
        (void)ftruncate(fd, static_cast<off_t>(size));
        throw system_failure("cannot extend " + path + " to " + std::to_string(length) + " bytes", error);
    }
}

void write_state(replica::mirror_file &to, const std::string &path, const replica::mirror_state &next,
        const replica::copy_stamp &stamp)
{
    if (const int error = to.store(next, stamp); error != 0)
        throw system_failure("cannot write " + path, error);
}

// Compares the inode of the file with the stamp. Returns `otherwise` after a crash, or if more must be compared.
replica::stamp_match match_inode(int file, const replica::mirror_file &of, replica::stamp_match otherwise)
{
    const replica::copy_stamp &stored = of.stamp();
    const bool is_closed = of.state().committed.closed;
    if (is_closed && stored.has_content())
        return otherwise;
    if (stored.size != 0 && !replica::has_stamp(std::span(&file, 1), of.state().length, stored))
        return replica::stamp_match::changed;
    return is_closed ? replica::stamp_match::unknown : otherwise;
}

} // namespace

std::uint64_t configured_length(const settings &of)
{
    struct stat found {
    };
    if (of.length != 0 || of.local_path.empty() || stat(of.local_path.c_str(), &found) != 0)
        return of.length;
    return static_cast<std::uint64_t>(found.st_size) / replica::page_size * replica::page_size;
}

replica::set_uuid read_set(const settings &of)
{
    replica::mirror_state found;
    return replica::mirror_file::read(of.state_path.c_str(), found) == 0 ? found.set : replica::set_uuid{};
}

void reject_changed(const settings &of)
{
    throw failure(RPMA_MIRROR_E_CHANGED,
            of.local_path + ": was replaced or changed while the set did not have it open, and no target that was "
                            "in sync responded (put the right file back, and use force, which uses it unchanged)");
}

bool local_copy::open_state()
{
    if (settings_.local_path.empty())
        return false;
    replica::mirror_file found;
    switch (const int error = found.open(settings_.state_path.c_str())) {
    case 0:
        file_.emplace(std::move(found));
        // Excludes a replaced file as the source, whose length is needed before the file is mapped.
        if (const replica::fd_owner data(::open(settings_.local_path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
                data.valid())
            match_ = match_inode(data.get(), *file_, match_);
        return true;
    case ENOENT:
        return false;
    case EBUSY:
        throw failure(RPMA_MIRROR_E_BUSY, "set in use by another process: " + settings_.state_path + " is locked");
    case EBADMSG:
        throw failure(RPMA_MIRROR_E_SYSTEM,
                settings_.state_path + ": damaged (remove it, and the local copy is rebuilt from a target)", error);
    default:
        throw system_failure("cannot open " + settings_.state_path, error);
    }
}

// Without a lock if the file system is read-only, for example after an error of its disk.
bool local_copy::read_state()
{
    try {
        const bool found = open_state();
        volatile_state_ = state();
        file_.reset();
        return found;
    } catch (const failure &error) {
        if (error.system() != EROFS || replica::mirror_file::read(settings_.state_path.c_str(), volatile_state_) != 0)
            throw;
        return true;
    }
}

// Opens the file of the copy. A file that is longer than the set must have had this length when the set was created.
void local_copy::open_file()
{
    const std::string &path = settings_.local_path;
    data_.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!data_.valid())
        throw errno == ENOENT
                ? failure(RPMA_MIRROR_E_NOT_FOUND, "local copy not found: " + path + remedy(settings_), ENOENT)
                : system_failure("cannot open " + path);
    const auto [size, is_device] = kind_of(data_.get(), path);
    const std::uint64_t stamped_size = is_device || !file_->stamp().has_size() ? 0 : file_->stamp().size;
    if (size < length_ || (stamped_size != 0 && size != stamped_size))
        throw failure(RPMA_MIRROR_E_CHANGED, path + ": has " + std::to_string(size) + " bytes instead of " +
                                                     std::to_string(stamped_size != 0 ? stamped_size : length()) +
                                                     remedy(settings_));
    is_device_ = is_device;
}

// Compares the file with its stamp. A crashed writer leaves changed times and content, but the same file.
void local_copy::check_stamp()
{
    const int files[] = {data_.get()};
    const replica::copy_stamp &stored = file_->stamp();
    const replica::mirror_record &record = state().committed;
    match_ = match_inode(data_.get(), *file_, match_);
    if (record.closed && stored.has_content())
        match_ = replica::match(stored, replica::stamp_content(files, {address(), length_}, record.epoch));
}

void local_copy::make_data(std::uint64_t length)
{
    const std::string &path = settings_.local_path;
    if (path.empty())
        return;
    constexpr int flags = O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    replica::fd_owner file(::open(path.c_str(), flags));
    if (!file.valid() && errno == ENOENT)
        file.reset(::open(path.c_str(), flags | O_CREAT | O_EXCL, 0600));
    if (!file.valid())
        throw system_failure("cannot create " + path);
    const auto [size, is_device] = kind_of(file.get(), path);
    if (is_device)
        return;
    if (const int error = size < length ? replica::allocate_file(file.get(), length) : 0; error != 0) {
        if (size == 0)
            unlink(path.c_str());
        throw system_failure("cannot create " + path, error);
    }
    if (fsync(file.get()) != 0)
        throw system_failure("cannot create " + path);
    if (const int error = sync_directory_of(path); error != 0)
        throw system_failure("cannot create " + path, error);
}

// A process can die in between. The next one recognizes by the state that the set owns the file.
void local_copy::make(const replica::mirror_state &first)
{
    if (settings_.local_path.empty()) {
        volatile_state_ = first;
        return;
    }
    check_data(settings_.local_path, first.length);
    replica::mirror_file file;
    const std::string &path = settings_.state_path;
    if (const int error = file.create(path.c_str(), first); error != 0)
        throw error == EEXIST ? failure(RPMA_MIRROR_E_EXISTS, "local copy already exists: " + path, error)
        : error == EBUSY      ? failure(RPMA_MIRROR_E_BUSY, "set in use by another process: it creates " + path, error)
                              : system_failure("cannot create " + path, error);
    file_.emplace(std::move(file));
    try {
        make_data(first.length);
    } catch (const failure &) {
        unlink(path.c_str());
        file_.reset();
        throw;
    }
}

void local_copy::store(const replica::mirror_state &next)
{
    if (!file_) {
        volatile_state_ = next;
        return;
    }
    const int files[] = {data_.get()};
    const replica::mirror_record &committed = state().committed;
    replica::copy_stamp stamp = file_->stamp();
    // A device that registers the memory after a promise changes the times. A file that changed keeps its stamp until
    // accept().
    if (match_ != replica::stamp_match::changed && next.promised != state().promised) {
        stamp = stamp.without_content();
    } else if (data_.valid() && match_ == replica::stamp_match::same && !extending_) {
        if (!next.committed.closed && next.committed != committed)
            stamp = replica::stamp_files(files, length_);
        else if (next.committed.closed && (!committed.closed || !stamp.has_content()))
            stamp = replica::settle(files, {address(), length_}, next.committed.epoch);
    }
    write_state(*file_, settings_.state_path, next, stamp);
}

void local_copy::map(void *hint, std::uint64_t max_length)
{
    memory_.clear();
    length_ = state().length;
    reserved_ = std::max(max_length, state().length);
    if (settings_.local_path.empty()) {
        int error = memory_.reserve_anonymous(reserved_, hint);
        if (error == 0)
            error = memory_.map_anonymous(length_);
        if (error != 0)
            throw system_failure("cannot map anonymous memory", error);
        return memory_.add();
    }
    open_file();
    if (hint != nullptr || reserved_ != length_)
        check(memory_.reserve(reserved_, hint), "cannot reserve addresses");
    check(memory_.map(data_.get(), 0, length_), "cannot map " + settings_.local_path);
    memory_.add();
    check_stamp();
}

void local_copy::check_extension(std::uint64_t length) const
{
    if (reserved_ == 0)
        throw failure(RPMA_MIRROR_E_INVAL,
                "memory of the program: cannot be extended (close the set, grow it, and map the file again)");
    if (length > reserved_)
        throw failure(RPMA_MIRROR_E_INVAL,
                "length of the set: " + std::to_string(length) + " bytes, but addresses are reserved for " +
                        std::to_string(reserved_) +
                        " (increase max-length and open the set again, or grow it while it is closed)");
    if (is_device_)
        throw failure(RPMA_MIRROR_E_INVAL, settings_.local_path + ": a DAX device cannot be extended");
}

// A file whose stamp is unknown is accepted, but compared with a target.
void local_copy::extend(std::uint64_t length, membership &state_lock)
{
    check_extension(length);
    std::uint64_t begin = 0;
    bool has_stamp = false;
    replica::copy_stamp meanwhile;
    {
        const std::lock_guard guard(state_lock);
        begin = state().length;
        meanwhile = file_ ? file_->stamp() : replica::copy_stamp();
        has_stamp = meanwhile.size != 0 && match_ == replica::stamp_match::same;
        if (match_ == replica::stamp_match::changed) {
            // No file has this stamp: the file remains changed with each size.
            meanwhile = {.size = replica::copy_stamp::unknown_size};
        } else if (meanwhile.size != 0) {
            const int files[] = {data_.get()};
            meanwhile = replica::stamp_inodes(files);
        }
    }
    const auto store_stamp = [&](const replica::copy_stamp &stamp) {
        const std::lock_guard guard(state_lock);
        extending_ = !stamp.has_size();
        write_state(*file_, settings_.state_path, state(), stamp);
    };
    const auto take_stamp = [&] {
        const std::lock_guard guard(state_lock);
        return current_stamp(state().length);
    };
    if (file_)
        replica::extend_files(meanwhile, has_stamp, store_stamp, take_stamp,
                [&] { allocate(data_.get(), settings_.local_path, begin, length); });
    extending_ = false;
    if (data_.valid())
        check(memory_.map(data_.get(), length_, length - length_), "cannot map " + settings_.local_path);
    else if (const int error = memory_.map_anonymous(length - length_); error != 0)
        throw system_failure("cannot map anonymous memory", error);
}

void local_copy::add_extension()
{
    memory_.add();
    length_ = memory_.size();
}

rpma_mirror_level local_copy::level() const
{
    switch (memory_.medium()) {
    case replica::medium::memory:
        return RPMA_MIRROR_LEVEL_VOLATILE;
    case replica::medium::page_cache:
        return RPMA_MIRROR_LEVEL_WRITTEN_BACK;
    default:
        return RPMA_MIRROR_LEVEL_CPU_FLUSHED;
    }
}

// Returns the stamp of the mapped file, of which no writer uses more than `length` bytes.
replica::copy_stamp local_copy::current_stamp(std::uint64_t length) const
{
    const int files[] = {data_.get()};
    const replica::mirror_record &record = state().committed;
    const bool is_quiet = record.closed && file_->stamp().has_content();
    return replica::current_stamp(files, {address(), length}, record.epoch, is_quiet);
}

void local_copy::set_length(std::uint64_t length)
{
    replica::mirror_state next = state();
    next.length = length;
    if (!file_) {
        volatile_state_ = next;
        return;
    }
    const replica::copy_stamp &stored = file_->stamp();
    const bool is_same = reserved_ != 0 && match_ == replica::stamp_match::same;
    write_state(*file_, settings_.state_path, next, is_same && stored.has_size() ? current_stamp(length) : stored);
}

void local_copy::adopt(void *address, std::uint64_t length)
{
    length_ = state().length;
    if (length != length_)
        throw failure(
                RPMA_MIRROR_E_INVAL, "memory: length differs from the set (" + std::to_string(length_) + " bytes)");
    if (settings_.local_path.empty())
        return memory_.adopt_file(-1, address, length);
    // msync() works for every mapping of a file, also if the program did not use MAP_SYNC.
    open_file();
    if (is_device_)
        check(memory_.adopt_device(data_.get(), address, length), "cannot use the mapping of " + settings_.local_path);
    else
        memory_.adopt_file(data_.get(), address, length);
    check_stamp();
}

// lseek() takes half as long as fstat(). The length is read first, because another thread can extend the file.
int local_copy::check_file() const noexcept
{
    const std::uint64_t length = length_;
    const off_t size = data_.valid() && !is_device_ ? lseek(data_.get(), 0, SEEK_END) : -1;
    return size < 0 || static_cast<std::uint64_t>(size) >= length
                   ? 0
                   : fail(RPMA_MIRROR_E_CHANGED,
                             "%s: truncated to %ld bytes while the set is open (end the program, remove the "
                             "file and %s, and open the set again)",
                             settings_.local_path.c_str(), size, settings_.state_path.c_str());
}

int local_copy::flush(replica::range r, bool deep) const noexcept
{
    const int error = level() == RPMA_MIRROR_LEVEL_VOLATILE ? 0 : memory_.flush(r);
    if (error != 0 || !deep)
        return error;
    drain();
    const int result = memory_.deep_flush(r);
    return result == 0 || result == PMEM2_E_NOSUPP ? 0 : EIO;
}

void local_copy::punch(replica::range r)
{
    // Device DAX returns ENODEV, because it has no replacement pages.
    if (data_.valid() &&
            fallocate(data_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(r.offset),
                    static_cast<off_t>(r.length)) != 0 &&
            errno != ENODEV)
        throw system_failure("cannot punch a hole into " + settings_.local_path);
    // The mapping still contains the poisoned page. MADV_DONTNEED_LOCKED unmaps locked pages, too.
    std::byte *const at = address() + r.offset;
    if (madvise(at, r.length, MADV_DONTNEED) != 0 && madvise(at, r.length, MADV_DONTNEED_LOCKED) != 0)
        throw system_failure("cannot unmap pages of the local copy");
}

} // namespace mirror
