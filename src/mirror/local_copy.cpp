// SPDX-License-Identifier: BSD-3-Clause
#include "local_copy.hpp"

#include <algorithm>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "failure.hpp"
#include "range.hpp"

namespace mirror
{

namespace
{

constexpr std::uint64_t huge_page = 2 << 20;

struct source_deleter {
    void operator()(pmem2_source *source) const { pmem2_source_delete(&source); }
};
struct config_deleter {
    void operator()(pmem2_config *config) const { pmem2_config_delete(&config); }
};

// Throws the error of a libpmem2 function: a negative errno value, or a number of its own, which becomes ENOTSUP.
void check(int error, const std::string &message)
{
    if (error != 0)
        throw failure(
                RPMA_MIRROR_E_SYSTEM, message + ": " + pmem2_errormsg(), error > PMEM2_E_UNKNOWN ? -error : ENOTSUP);
}

bool is_lost_with_power(int fd)
{
    struct statfs facts {
    };
    return fstatfs(fd, &facts) == 0 &&
           (facts.f_type == TMPFS_MAGIC || facts.f_type == HUGETLBFS_MAGIC || facts.f_type == RAMFS_MAGIC);
}

void sync_directory_of(const std::string &path)
{
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const replica::fd_owner opened(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.valid() || fsync(opened.get()) != 0)
        throw system_failure("cannot create " + path + " durable");
}

} // namespace

local_copy::~local_copy()
{
    if (anonymous_map_)
        munmap(address_, reserved_);
}

bool local_copy::open_state()
{
    if (settings_.local_path.empty())
        return false;
    replica::mirror_file found;
    switch (const int error = found.open(settings_.state_path.c_str())) {
    case 0:
        file_.emplace(std::move(found));
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

void local_copy::release_state()
{
    volatile_state_ = state();
    file_.reset();
}

// Opens the file of the copy. Returns true if it is a device.
bool local_copy::open_file()
{
    data_.reset(::open(settings_.local_path.c_str(), O_RDWR | O_CLOEXEC));
    if (!data_.valid())
        throw errno == ENOENT
                ? failure(RPMA_MIRROR_E_NOT_FOUND, "local copy not found: " + settings_.local_path + remedy(), ENOENT)
                : system_failure("cannot open " + settings_.local_path);
    return check_length();
}

// Returns size and kind of the file. Throws failure unless it is a regular file or a DAX device.
local_copy::file_kind local_copy::check_kind(int fd) const
{
    struct stat found {
    };
    if (fstat(fd, &found) != 0)
        throw system_failure("cannot use " + settings_.local_path);
    if (S_ISREG(found.st_mode))
        return {static_cast<std::uint64_t>(found.st_size), false};
    pmem2_source *source = nullptr;
    const bool is_dax = S_ISCHR(found.st_mode) && pmem2_source_from_fd(&source, fd) == 0;
    const std::unique_ptr<pmem2_source, source_deleter> owned(source);
    std::size_t size = 0;
    if (!is_dax || pmem2_source_size(source, &size) != 0)
        throw failure(RPMA_MIRROR_E_INVAL, settings_.local_path + ": neither a regular file nor a DAX device");
    return {size, true};
}

// Checks the length. A file that is longer than the set must have had this length when the set was created. Returns
// true if the file is a device.
bool local_copy::check_length() const
{
    const auto [size, is_device] = check_kind(data_.get());
    const std::uint64_t stamped_size = is_device ? 0 : file_->stamp().size;
    if (size < length_ || (stamped_size != 0 && size != stamped_size))
        throw failure(
                RPMA_MIRROR_E_CHANGED, settings_.local_path + ": has " + std::to_string(size) + " bytes instead of " +
                                               std::to_string(stamped_size != 0 ? stamped_size : length()) + remedy());
    return is_device;
}

std::string local_copy::remedy() const
{
    return " (put the right file back; or remove it and " + settings_.state_path +
           ", and it is copied from a target when the set is opened)";
}

void local_copy::reject_changed() const
{
    throw failure(RPMA_MIRROR_E_CHANGED,
            settings_.local_path +
                    ": was replaced or changed while the set did not have it open, and no target that was "
                    "in sync responded (put the right file back, and use force, which takes it as it is)");
}

// Compares the file with its stamp. A crashed writer has changed times and content of the file, but did not replace the
// file.
void local_copy::check_stamp()
{
    const int files[] = {data_.get()};
    const replica::copy_stamp &stored = file_->stamp();
    const replica::mirror_record &record = state().committed;
    if (record.closed)
        match_ = replica::match(stored, replica::stamp_content(files, {address_, length_}, record.epoch));
    else if (stored.size != 0 && stored != replica::stamp_files(files, length_))
        match_ = replica::stamp_match::changed;
}

std::uint64_t local_copy::configured_length() const
{
    struct stat found {
    };
    if (settings_.length != 0 || settings_.local_path.empty() || stat(settings_.local_path.c_str(), &found) != 0)
        return settings_.length;
    return static_cast<std::uint64_t>(found.st_size) / replica::page_size * replica::page_size;
}

// Checks a file that existed before the set.
void local_copy::check_data(std::uint64_t length) const
{
    // O_NONBLOCK: opening a named pipe must not block the program.
    const replica::fd_owner file(::open(settings_.local_path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file.valid())
        throw system_failure("cannot open " + settings_.local_path);
    if (const std::uint64_t size = check_kind(file.get()).size; size < length)
        throw failure(RPMA_MIRROR_E_INVAL, settings_.local_path + ": " + std::to_string(size) + " bytes, but " +
                                                   std::to_string(length) + " in the set (remove it, or extend it)");
}

void local_copy::make_data(std::uint64_t length)
{
    if (settings_.local_path.empty())
        return;
    const replica::fd_owner created(
            ::open(settings_.local_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!created.valid() && errno == EEXIST)
        return check_data(length);
    if (!created.valid())
        throw system_failure("cannot create " + settings_.local_path);
    if (const int error = posix_fallocate(created.get(), 0, static_cast<off_t>(length)); error != 0) {
        unlink(settings_.local_path.c_str());
        throw system_failure("cannot create " + settings_.local_path, error);
    }
    if (fsync(created.get()) != 0)
        throw system_failure("cannot create " + settings_.local_path);
    sync_directory_of(settings_.local_path);
}

void local_copy::make(const replica::mirror_state &first)
{
    if (settings_.local_path.empty()) {
        volatile_state_ = first;
        return;
    }
    make_data(first.length);
    replica::mirror_file file;
    if (const int error = file.create(settings_.state_path.c_str(), first); error != 0)
        throw error == EEXIST
                ? failure(RPMA_MIRROR_E_EXISTS, "local copy already exists: " + settings_.state_path, error)
                : system_failure("cannot create " + settings_.state_path, error);
    file_.emplace(std::move(file));
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
    // Updates the stamp only with a new record, not with a promise.
    if (data_.valid() && next.committed != committed && !extending_) {
        if (!next.committed.closed)
            stamp = replica::stamp_files(files, length_);
        else if (!committed.closed)
            stamp = replica::settle(files, {address_, length_}, next.committed.epoch);
    }
    store(next, stamp);
}

void local_copy::store(const replica::mirror_state &next, const replica::copy_stamp &stamp)
{
    if (const int error = file_->store(next, stamp); error != 0)
        throw system_failure("cannot write " + settings_.state_path, error);
}

void local_copy::map(void *hint, std::uint64_t max_length)
{
    length_ = state().length;
    reserved_ = std::max(max_length, state().length);
    if (settings_.local_path.empty())
        return map_memory(hint);
    open_file();
    map_file(hint);
    check_stamp();
}

void local_copy::map_memory(void *hint)
{
    void *const memory = mmap(hint, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        throw system_failure("cannot map anonymous memory");
    address_ = static_cast<std::byte *>(memory);
    anonymous_map_ = true;
    if (mprotect(address_, length_, PROT_READ | PROT_WRITE) != 0)
        throw system_failure("cannot map anonymous memory");
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
    if (data_.valid() && check_kind(data_.get()).is_device)
        throw failure(RPMA_MIRROR_E_INVAL, settings_.local_path + ": a DAX device cannot be extended");
}

// Maps the bytes beyond the present mapping.
void local_copy::create_extension(std::uint64_t length)
{
    extension_.reset();
    if (data_.valid())
        extension_.reset(new_map(length_, length - length_));
    else if (mprotect(address_ + length_, length - length_, PROT_READ | PROT_WRITE) != 0)
        throw system_failure("cannot map anonymous memory");
    extended_length_ = length;
}

void local_copy::add_extension()
{
    if (extension_)
        maps_.push_back(std::move(extension_));
    length_ = extended_length_;
}

// Returns the stamp of the file that is mapped, of which no writer uses more than `length` bytes.
replica::copy_stamp local_copy::present_stamp(std::uint64_t length) const
{
    const int files[] = {data_.get()};
    const replica::mirror_record &record = state().committed;
    return replica::present_stamp(files, {address_, length}, record.epoch, record.closed);
}

// Allocates the bytes of the copy beyond its length. If it throws failure, the file has its old size.
void local_copy::allocate(std::uint64_t present, std::uint64_t length) const
{
    const std::uint64_t size = check_kind(data_.get()).size;
    const auto begin = static_cast<off_t>(present), end = static_cast<off_t>(length);
    int error = posix_fallocate(data_.get(), begin, end - begin);
    // Bytes that the file had beyond the copy can have any content.
    const off_t used = std::min(static_cast<off_t>(size), end);
    if (error == 0 && used > begin) {
        if (fallocate(data_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, used - begin) != 0)
            error = errno;
        else
            error = posix_fallocate(data_.get(), begin, used - begin);
    }
    if (error == 0 && fsync(data_.get()) != 0)
        error = errno;
    if (error != 0) {
        (void)ftruncate(data_.get(), static_cast<off_t>(size));
        throw system_failure(
                "cannot extend " + settings_.local_path + " to " + std::to_string(length) + " bytes", error);
    }
}

void local_copy::set_length(std::uint64_t length)
{
    replica::mirror_state next = state();
    next.length = length;
    if (file_)
        return store(next, file_->stamp().size == 0 || maps_.empty() ? replica::copy_stamp() : present_stamp(length));
    volatile_state_ = next;
}

// Reserves addresses for the mappings of the file, at `hint` if possible. Without a reservation libpmem2 selects the
// address.
void local_copy::reserve(void *hint)
{
    pmem2_vm_reservation *created = nullptr;
    const bool at_hint = hint != nullptr && pmem2_vm_reservation_new(&created, hint, reserved_) == 0;
    if (!at_hint && reserved_ == length_)
        return;
    if (!at_hint)
        check(pmem2_vm_reservation_new(&created, nullptr, reserved_ + huge_page), "cannot reserve addresses");
    reservation_.reset(created);
    if (!at_hint)
        reservation_offset_ = -reinterpret_cast<std::uintptr_t>(pmem2_vm_reservation_get_address(created)) % huge_page;
}

pmem2_map *local_copy::new_map(std::uint64_t begin, std::uint64_t length) const
{
    const std::string message = "cannot map " + settings_.local_path;
    pmem2_source *source = nullptr;
    check(pmem2_source_from_fd(&source, data_.get()), message);
    const std::unique_ptr<pmem2_source, source_deleter> owned_source(source);
    pmem2_config *config = nullptr;
    check(pmem2_config_new(&config), message);
    const std::unique_ptr<pmem2_config, config_deleter> owned_config(config);
    check(pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE), message);
    check(pmem2_config_set_offset(config, begin), message);
    check(pmem2_config_set_length(config, length), message);
    if (reservation_)
        check(pmem2_config_set_vm_reservation(config, reservation_.get(), reservation_offset_ + begin), message);
    pmem2_map *map = nullptr;
    check(pmem2_map_new(&map, config, source), message);
    return map;
}

void local_copy::map_file(void *hint)
{
    reserve(hint);
    maps_.emplace_back(new_map(0, length_));
    choose_flush(maps_.back().get());
}

void local_copy::choose_flush(pmem2_map *map)
{
    address_ = static_cast<std::byte *>(pmem2_map_get_address(map));
    flush_ = pmem2_get_flush_fn(map);
    drain_ = pmem2_get_drain_fn(map);
    pmem_ = pmem2_map_get_store_granularity(map) != PMEM2_GRANULARITY_PAGE;
    level_ = pmem_                             ? RPMA_MIRROR_LEVEL_CPU_FLUSHED
             : is_lost_with_power(data_.get()) ? RPMA_MIRROR_LEVEL_VOLATILE
                                               : RPMA_MIRROR_LEVEL_WRITTEN_BACK;
}

void local_copy::adopt(void *address, std::uint64_t length)
{
    length_ = state().length;
    if (length != length_)
        throw failure(
                RPMA_MIRROR_E_INVAL, "memory: length differs from the set (" + std::to_string(length_) + " bytes)");
    address_ = static_cast<std::byte *>(address);
    if (settings_.local_path.empty())
        return;
    if (!open_file()) {
        // Uses msync(), which works for each mapping: it is unknown whether the program used MAP_SYNC.
        level_ = is_lost_with_power(data_.get()) ? RPMA_MIRROR_LEVEL_VOLATILE : RPMA_MIRROR_LEVEL_WRITTEN_BACK;
        check_stamp();
        return;
    }
    const std::string message = "cannot use the mapping of " + settings_.local_path;
    pmem2_source *source = nullptr;
    check(pmem2_source_from_fd(&source, data_.get()), message);
    const std::unique_ptr<pmem2_source, source_deleter> owned_source(source);
    pmem2_map *map = nullptr;
    check(pmem2_map_from_existing(&map, source, address, length, PMEM2_GRANULARITY_CACHE_LINE), message);
    maps_.emplace_back(map);
    choose_flush(map);
    check_stamp();
}

int local_copy::flush(replica::range r) const noexcept
{
    std::byte *const at = address_ + r.offset;
    if (pmem_) {
        flush_(at, r.length);
        return 0;
    }
    if (level_ == RPMA_MIRROR_LEVEL_VOLATILE)
        return 0;
    // Calls msync directly, because the persist function of libpmem2 for pages does not report an error.
    const std::uint64_t page_offset = r.offset % replica::page_size;
    return msync(at - page_offset, r.length + page_offset, MS_SYNC) == 0 ? 0 : errno;
}

void local_copy::drain() const noexcept
{
    if (pmem_)
        drain_();
}

int local_copy::deep_flush(replica::range r) const noexcept
{
    const int error = flush(r);
    drain();
    if (error != 0 || !pmem_)
        return error;
    std::uint64_t begin = 0;
    for (const auto &map : maps_) {
        const std::uint64_t end = begin + pmem2_map_get_size(map.get());
        const std::uint64_t first = std::max(r.offset, begin), last = std::min(r.offset + r.length, end);
        const int deep = first < last ? pmem2_deep_flush(map.get(), address_ + first, last - first) : 0;
        if (deep != 0 && deep != PMEM2_E_NOSUPP)
            return EIO;
        begin = end;
    }
    return 0;
}

void local_copy::punch(replica::range r)
{
    // Device DAX returns ENODEV: it has no other pages.
    if (data_.valid() &&
            fallocate(data_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(r.offset),
                    static_cast<off_t>(r.length)) != 0 &&
            errno != ENODEV)
        throw system_failure("cannot punch a hole into " + settings_.local_path);
    // Unmaps the pages, because the mapping keeps the poisoned page although the file has a new one. Only
    // MADV_DONTNEED_LOCKED works for locked pages.
    std::byte *const at = address_ + r.offset;
    if (madvise(at, r.length, MADV_DONTNEED) != 0 && madvise(at, r.length, MADV_DONTNEED_LOCKED) != 0)
        throw system_failure("cannot unmap pages of the local copy");
}

} // namespace mirror
