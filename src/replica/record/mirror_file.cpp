// SPDX-License-Identifier: BSD-3-Clause
#include "record/mirror_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/short_text.hpp"
#include "base/siphash.hpp"
#include "sync_directory.hpp"

namespace replica
{

namespace
{

constexpr std::size_t slot_size = 4096;
constexpr std::uint64_t slots = 2;
constexpr char slot_start[8] = {'R', 'P', 'M', 'A', 'M', 'I', 'R', 'R'};
constexpr std::uint32_t format_without_stamp = 1;
constexpr std::uint32_t format = 2;
// Only written for a resynchronized copy, so that earlier versions can read the other slots.
constexpr std::uint32_t format_resynced = 3;

// Detects torn slots. The key is public, so this does not protect against attackers.
siphash_result checksum(const std::byte *slot, std::size_t checked_size)
{
    return siphash_128(siphash_key{}, {slot, checked_size});
}

void put(byte_writer &to, const copy_stamp &s)
{
    to.put(s.size);
    for (const siphash_result &digest : {s.files, s.times, s.sample})
        to.put_raw(digest.data(), digest.size());
}

void get(byte_reader &from, copy_stamp &s)
{
    s.size = from.get<std::uint64_t>();
    for (siphash_result *const digest : {&s.files, &s.times, &s.sample})
        from.get_raw(digest->data(), digest->size());
}

// Returns the sequence number, or 0 if the slot is invalid.
std::uint64_t decode_slot(std::span<const std::byte, slot_size> bytes, mirror_state &to, copy_stamp &stamp)
{
    byte_reader from(bytes);
    char start[sizeof(slot_start)]{};
    from.get_raw(start, sizeof(start));
    const auto version = from.get<std::uint32_t>();
    const auto sequence = from.get<std::uint64_t>();
    if (std::memcmp(start, slot_start, sizeof(start)) != 0 || version < format_without_stamp ||
            version > format_resynced || !get(from, to))
        return 0;
    to.resynced = version == format_resynced;
    if (version != format_without_stamp)
        get(from, stamp);
    const std::size_t checked_size = slot_size - from.rest().size();
    siphash_result stored{};
    from.get_raw(stored.data(), stored.size());
    const siphash_result expected = checksum(bytes.data(), checked_size);
    return std::memcmp(stored.data(), expected.data(), expected.size()) == 0 ? sequence : 0;
}

} // namespace

int mirror_file::lock()
{
    // Retries for 100 ms, because a process that only reads the state holds the lock briefly.
    for (int attempt = 0; flock(file_.get(), LOCK_EX | LOCK_NB) != 0; ++attempt) {
        if (errno != EWOULDBLOCK)
            return errno;
        if (attempt == 20)
            return EBUSY;
        usleep(5000);
    }
    return 0;
}

// Opens and locks an empty file that no other process uses. A file with content is left from a process that died. It
// can be the state file by another name, so it is removed, and never truncated.
int mirror_file::lock_new(const char *path)
{
    for (;;) {
        file_.reset(::open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!file_.valid())
            return errno;
        if (const int error = lock(); error != 0)
            return error;
        struct stat locked {
        };
        struct stat present {
        };
        const fd_owner named(::open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        const bool is_named = fstat(file_.get(), &locked) == 0 && fstat(named.get(), &present) == 0 &&
                              locked.st_dev == present.st_dev && locked.st_ino == present.st_ino;
        if (is_named && locked.st_size == 0)
            return 0;
        if (is_named && unlink(path) != 0)
            return errno;
    }
}

int mirror_file::write_slot(const mirror_state &s, const copy_stamp &stamp, std::uint64_t sequence)
{
    std::byte bytes[slot_size]{};
    byte_writer to(bytes);
    to.put_raw(slot_start, sizeof(slot_start)).put(s.resynced ? format_resynced : format).put(sequence);
    put(to, s);
    put(to, stamp);
    const siphash_result check = checksum(bytes, to.size());
    to.put_raw(check.data(), check.size());
    errno = EIO;
    const auto at = static_cast<off_t>(sequence % slots * slot_size);
    if (pwrite(file_.get(), bytes, slot_size, at) != slot_size || fdatasync(file_.get()) != 0)
        return errno;
    return 0;
}

int mirror_file::create(const char *path, const mirror_state &first)
{
    short_text<4095> unfinished;
    unfinished.format("%s.new", path);
    if (unfinished.view().size() == unfinished.capacity)
        return ENAMETOOLONG;
    if (const int error = lock_new(unfinished.c_str()); error != 0) {
        file_.reset();
        return error;
    }
    // Allocates both slots, so that a full disk cannot fail a later record.
    int error = posix_fallocate(file_.get(), 0, slots * slot_size);
    if (error == 0)
        error = write_slot(first, {}, 1);
    // link() does not replace an existing file.
    if (error == 0 && link(unfinished.c_str(), path) != 0)
        error = errno;
    unlink(unfinished.c_str());
    if (error == 0)
        error = sync_directory_of(path);
    if (error != 0) {
        file_.reset();
        return error;
    }
    state_ = first;
    stamp_ = {};
    sequence_ = 1;
    broken_ = 0;
    return 0;
}

int mirror_file::read_slots()
{
    sequence_ = 0;
    broken_ = 0;
    for (std::uint64_t slot = 0; slot < slots; ++slot) {
        mirror_state found;
        copy_stamp stamp;
        std::byte bytes[slot_size];
        const ssize_t size = pread(file_.get(), bytes, slot_size, static_cast<off_t>(slot * slot_size));
        // A slot that cannot be read might have the newest state.
        if (size < 0)
            return errno;
        const std::uint64_t sequence = size == slot_size ? decode_slot(bytes, found, stamp) : 0;
        if (sequence > sequence_) {
            sequence_ = sequence;
            state_ = found;
            stamp_ = stamp;
        }
    }
    // The process that wrote the slot might have been killed before the slot was durable.
    return sequence_ == 0 ? EBADMSG : fdatasync(file_.get()) != 0 ? errno : 0;
}

int mirror_file::open(const char *path)
{
    file_.reset(::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!file_.valid())
        return errno;
    int error = lock();
    if (error == 0)
        error = read_slots();
    if (error != 0)
        file_.reset();
    return error;
}

int mirror_file::read(const char *path, mirror_state &to)
{
    constexpr int max_attempts = 10;
    mirror_file file;
    file.file_.reset(::open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file.file_.valid())
        return errno;
    // Both reads fail if a process writes both slots at the same time.
    int error = EBADMSG;
    for (int attempt = 0; error == EBADMSG && attempt < max_attempts; ++attempt)
        error = file.read_slots();
    to = file.state_;
    return error;
}

int mirror_file::store(const mirror_state &next, const copy_stamp &stamp)
{
    if (!file_.valid())
        return EBADF;
    if (broken_ == 0)
        broken_ = write_slot(next, stamp, sequence_ + 1);
    if (broken_ != 0)
        return broken_;
    ++sequence_;
    state_ = next;
    stamp_ = stamp;
    return 0;
}

} // namespace replica
