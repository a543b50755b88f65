// SPDX-License-Identifier: BSD-3-Clause
// Simulated files and persistent memory, with the interfaces of the C library and libpmem2.
#include "storage.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <libpmem2.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <utility>

#include "real.hpp"
#include "stubs.hpp"

namespace simulation
{

storage *disks = nullptr;

namespace
{

constexpr std::size_t line = 64;

// Addresses of file contents, for reuse by the next world.
std::vector<std::byte *> free_memory;

std::byte *new_memory()
{
    if (free_memory.empty())
        return static_cast<std::byte *>(mmap(nullptr, storage::max_used, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    std::byte *const taken = free_memory.back();
    free_memory.pop_back();
    return taken;
}

// Stores that were written back, but not yet followed by a fence.
struct pending {
    const std::byte *from;
    std::size_t length;
};
std::map<const fiber *, std::vector<pending>> written_back;

void flush(const void *from, std::size_t length)
{
    written_back[world::instance->current()].push_back({static_cast<const std::byte *>(from), length});
}

void drain()
{
    std::vector<pending> &mine = written_back[world::instance->current()];
    for (const pending &p : mine)
        disks->persist(p.from, p.length);
    mine.clear();
}

// Allocation of blocks can be slow.
void take_time()
{
    world &in = *world::instance;
    in.sleep(in.between(0, in.one_in(8) ? 60 * ms : ms));
}

void flush_and_drain(const void *from, std::size_t length)
{
    disks->persist(static_cast<const std::byte *>(from), length);
}

} // namespace

void file::resize(std::size_t size)
{
    if (live == nullptr)
        live = new_memory();
    std::memset(live + std::min(size, this->size()), 0, size - std::min(size, this->size()));
    durable.resize(size);
}

void file::persist(std::size_t offset, std::size_t length)
{
    const std::size_t begin = offset / line * line, end = std::min((offset + length + line - 1) / line * line, size());
    std::copy(live + begin, live + end, durable.begin() + static_cast<std::ptrdiff_t>(begin));
}

storage::storage(world &in) : in_(in)
{
    disks = this;
    written_back.clear();
}

storage::~storage()
{
    for (auto &[key, f] : files_)
        if (f.live != nullptr)
            free_memory.push_back(f.live);
    disks = nullptr;
}

file &storage::of(int fd)
{
    struct stat facts {
    };
    REAL(fstat)(fd, &facts);
    return files_[{facts.st_dev, facts.st_ino}];
}

file *storage::at(const std::byte *address)
{
    for (auto &[key, f] : files_)
        if (f.live != nullptr && address >= f.live && address < f.live + f.size())
            return &f;
    return nullptr;
}

file *storage::named(const std::string &path)
{
    file *&known = by_name_[path];
    struct stat facts {
    };
    if (known == nullptr && stat(path.c_str(), &facts) == 0)
        known = &files_[{facts.st_dev, facts.st_ino}];
    return known;
}

void storage::make(const std::string &path, std::size_t length)
{
    std::ofstream created(path);
    file &f = *named(path);
    f.path = path;
    set_length(f, length);
    f.durable_size = length;
}

void storage::set_length(file &f, std::size_t length) const
{
    (void)truncate(f.path.c_str(), static_cast<off_t>(length));
    f.real_size = length;
    f.resize(std::min(length, used));
}

void storage::persist(const std::byte *from, std::size_t length)
{
    if (file *const f = at(from); f != nullptr)
        f->persist(static_cast<std::size_t>(from - f->live), length);
}

void storage::back_up(const std::string &path, std::uint64_t set_length)
{
    if (file *const f = named(path); f != nullptr && f->live != nullptr) {
        f->backup.assign(f->live, f->live + f->size());
        f->backup_length = set_length;
    }
}

bool storage::restore(const std::string &path, restored how, std::uint64_t set_length)
{
    file *const f = named(path);
    if (f == nullptr || f->backup.empty() || f->backup.size() != f->size() ||
            (set_length != 0 && f->backup_length != set_length))
        return false;
    f->is_restored = true;
    std::ranges::copy(f->backup, f->live);
    f->durable = f->backup;
    if (how != restored::below_file_system)
        f->changed = next_time();
    if (how == restored::as_other_file)
        f->inode = static_cast<std::uint64_t>(next_time());
    return true;
}

void storage::lose_power(const std::string &directory)
{
    for (auto &[key, f] : files_) {
        if (!f.path.starts_with(directory) || f.live == nullptr)
            continue;
        if (f.real_size != f.durable_size && in_.one_in(2))
            set_length(f, f.durable_size);
        f.durable_size = f.real_size;
        f.punched.clear();
        const std::uint64_t lost_of_four = in_.below(5);
        for (std::size_t at = 0; at + 8 <= f.size(); at += 8) {
            if (std::memcmp(f.live + at, &f.durable[at], 8) == 0)
                continue;
            if (in_.below(4) < lost_of_four)
                std::memcpy(f.live + at, &f.durable[at], 8);
            else
                std::memcpy(&f.durable[at], f.live + at, 8);
        }
    }
}

} // namespace simulation

using namespace simulation;

struct pmem2_source {
    int fd;
};
struct pmem2_config {
    pmem2_vm_reservation *range = nullptr;
    std::size_t length = 0;
};
struct pmem2_vm_reservation {
    std::byte *address = nullptr;
};
struct pmem2_map {
    file *of;
    std::size_t length;
};

extern "C" {

int open(const char *path, int flags, ...)
{
    std::va_list arguments;
    va_start(arguments, flags);
    const auto mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : mode_t{0};
    va_end(arguments);
    const int fd = REAL(open)(path, flags, mode);
    if (inside() && fd >= 0) {
        world::instance->here().files.insert(fd);
        if ((flags & (O_PATH | O_DIRECTORY)) == 0)
            disks->of(fd).path = path;
    }
    return fd;
}

ssize_t pread(int fd, void *to, size_t size, off_t offset)
{
    if (!inside())
        return REAL(pread)(fd, to, size, offset);
    const file &f = disks->of(fd);
    const auto at = static_cast<size_t>(offset);
    if (at >= f.size())
        return 0;
    const size_t got = std::min(size, f.size() - at);
    std::memcpy(to, f.live + at, got);
    return static_cast<ssize_t>(got);
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t offset)
{
    if (!inside())
        return REAL(pwrite)(fd, from, size, offset);
    world::instance->perhaps_switch();
    file &f = disks->of(fd);
    if (f.size() < 2 * size)
        f.resize(2 * size); // a file of two slots
    std::memcpy(f.live + offset, from, size);
    world::instance->perhaps_switch();
    return static_cast<ssize_t>(size);
}

int fdatasync(int fd)
{
    if (!inside())
        return REAL(fdatasync)(fd);
    world::instance->sleep(world::instance->between(10, 500));
    file &f = disks->of(fd);
    f.persist(0, f.size());
    f.durable_size = f.real_size;
    return 0;
}

int fstat(int fd, struct stat *to) noexcept
{
    const int result = REAL(fstat)(fd, to);
    if (inside() && result == 0 && S_ISREG(to->st_mode)) {
        const file &f = disks->of(fd);
        to->st_ino = f.inode;
        to->st_ctim = {f.changed, 0};
    }
    return result;
}

int futimens(int fd, const timespec *times) noexcept
{
    if (!inside())
        return REAL(futimens)(fd, times);
    disks->of(fd).changed = disks->next_time();
    return 0;
}

int unlink(const char *path) noexcept
{
    if (inside())
        disks->forget(path);
    return REAL(unlink)(path);
}

// Makes only length and holes durable: the code must not depend on it for data.
int fsync(int fd)
{
    if (!inside())
        return REAL(fsync)(fd);
    file &f = disks->of(fd);
    f.durable_size = f.real_size;
    for (const auto &[begin, end] : std::exchange(f.punched, {}))
        f.persist(begin, end - begin);
    return 0;
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    if (!inside())
        return REAL(fallocate)(fd, mode, offset, length);
    file &f = disks->of(fd);
    if ((mode & FALLOC_FL_PUNCH_HOLE) == 0) {
        take_time();
        errno = ENOSPC;
        return disks->is_full(f) ? -1 : 0;
    }
    const auto begin = std::min(static_cast<size_t>(offset), f.size()),
               end = std::min(static_cast<size_t>(offset + length), f.size());
    std::memset(f.live + begin, 0, end - begin);
    f.punched.emplace_back(begin, end);
    return 0;
}

int ftruncate(int fd, off_t length) noexcept
{
    if (!inside())
        return REAL(ftruncate)(fd, length);
    world::instance->perhaps_switch();
    disks->set_length(disks->of(fd), static_cast<size_t>(length));
    return 0;
}

int posix_fallocate(int fd, off_t offset, off_t length)
{
    if (!inside())
        return REAL(posix_fallocate)(fd, offset, length);
    take_time();
    file &f = disks->of(fd);
    const auto end = static_cast<size_t>(offset + length);
    if (end <= f.real_size)
        return 0;
    // Like ext4, which allocates a long range in several steps.
    const bool is_full = disks->is_full(f);
    disks->set_length(f, is_full ? f.real_size + world::instance->below(end - f.real_size) : end);
    world::instance->perhaps_switch();
    return is_full ? ENOSPC : 0;
}

int fstatfs(int fd, struct statfs *to) noexcept
{
    if (!inside())
        return REAL(fstatfs)(fd, to);
    *to = {};
    to->f_type = EXT4_SUPER_MAGIC;
    return 0;
}

int msync(void *from, size_t length, int flags)
{
    if (!inside())
        return REAL(msync)(from, length, flags);
    world::instance->perhaps_switch();
    disks->persist(static_cast<const std::byte *>(from), length);
    return 0;
}

int madvise(void *from, size_t length, int advice) noexcept
{
    return inside() ? 0 : REAL(madvise)(from, length, advice);
}

SIMULATED(int, pmem2_source_from_fd, (pmem2_source * *to, int fd), stored(to, new pmem2_source{fd}))

int pmem2_source_size(const pmem2_source *of, size_t *size)
{
    struct stat facts {
    };
    fstat(of->fd, &facts);
    *size = static_cast<size_t>(facts.st_size);
    return 0;
}

SIMULATED(int, pmem2_source_alignment, (const pmem2_source *, size_t *alignment), stored(alignment, 4096))
SIMULATED_DELETE(pmem2_source_delete, pmem2_source)
SIMULATED(int, pmem2_config_new, (pmem2_config * *to), stored(to, new pmem2_config))
SIMULATED_DELETE(pmem2_config_delete, pmem2_config)
SIMULATED(int, pmem2_config_set_required_store_granularity, (pmem2_config *, pmem2_granularity), 0)

SIMULATED(int, pmem2_config_set_length, (pmem2_config * to, size_t length), stored(&to->length, length))
SIMULATED(int, pmem2_config_set_offset, (pmem2_config *, size_t), 0)
SIMULATED(int, pmem2_config_set_vm_reservation, (pmem2_config * to, pmem2_vm_reservation *range, size_t),
        stored(&to->range, range))
SIMULATED(int, pmem2_vm_reservation_new, (pmem2_vm_reservation * *to, void *, size_t),
        stored(to, new pmem2_vm_reservation))
SIMULATED(void *, pmem2_vm_reservation_get_address, (pmem2_vm_reservation * of), of->address)
SIMULATED_DELETE(pmem2_vm_reservation_delete, pmem2_vm_reservation)

int pmem2_map_new(pmem2_map **to, const pmem2_config *how, const pmem2_source *of)
{
    file &f = disks->of(of->fd);
    if (how->range != nullptr)
        how->range->address = f.live;
    *to = new pmem2_map{&f, how->length};
    return 0;
}

SIMULATED_DELETE(pmem2_map_delete, pmem2_map)
SIMULATED(void *, pmem2_map_get_address, (pmem2_map * of), of->of->live)
SIMULATED(size_t, pmem2_map_get_size, (pmem2_map * of), of->length)
SIMULATED(pmem2_granularity, pmem2_map_get_store_granularity, (pmem2_map *),
        disks->persistent_memory ? PMEM2_GRANULARITY_CACHE_LINE : PMEM2_GRANULARITY_PAGE)
SIMULATED(pmem2_flush_fn, pmem2_get_flush_fn, (pmem2_map *), flush)
SIMULATED(pmem2_drain_fn, pmem2_get_drain_fn, (pmem2_map *), drain)
SIMULATED(pmem2_persist_fn, pmem2_get_persist_fn, (pmem2_map *), flush_and_drain)

int pmem2_deep_flush(pmem2_map *, void *from, size_t length)
{
    disks->persist(static_cast<const std::byte *>(from), length);
    return 0;
}

} // extern "C"
