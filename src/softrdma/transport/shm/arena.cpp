// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/arena.hpp"
#include "base/or_no_memory.hpp"
#include "base/assert.hpp"
#include "base/log.hpp"
#include "base/read_section.hpp"
#include "base/guard.hpp"
#include "base/proc_maps.hpp"
#include "transport/shm/identity.hpp"
#include "transport/shm/policy.hpp"
#include "base/process.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softrdma
{

namespace
{

constexpr std::uint64_t max_arena_size = std::uint64_t{1} << 38; // sparse: only touched pages use memory
constexpr std::uint64_t min_arena_size = std::uint64_t{1} << 26;

std::size_t machine_page() noexcept
{
    return std::max<std::size_t>(page_size(), page);
}

std::size_t whole_pages(std::size_t size) noexcept
{
    return (size + machine_page() - 1) / machine_page() * machine_page();
}

std::byte *map(int fd, std::uint64_t offset, std::size_t size) noexcept
{
    const int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *at = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, fd >= 0 ? static_cast<off_t>(offset) : 0);
    return at == MAP_FAILED ? nullptr : static_cast<std::byte *>(at);
}

} // namespace

arena &arena::instance()
{
    static constinit process::single<arena> one;
    return one.get([] {
        const int before = errno;
        auto *created = new arena;
        errno = before; // the caller must not see errors of the optional features
        return created;
    });
}

arena::arena()
{
    if (policy() != transport_word::tcp)
        open_file();
    std::byte *tables = map(fd_, 0, tables_size);
    if (tables == nullptr) { // they need eight megabytes of address space
        if (shared())
            close(fd_);
        throw std::bad_alloc();
    }
    slots_ = reinterpret_cast<region_slot *>(tables + page);
    size_ = shared() ? size_ : max_arena_size;
    end_ = whole_pages(tables_size);
    if (!shared())
        return;
    auto *header = reinterpret_cast<arena_header *>(tables);
    header->magic = arena_magic;
    header->version = arena_version;
    header->pid = static_cast<std::uint32_t>(getpid());
    header->token = token_;
    header->start_time = start_time_;
    header->token_address = reinterpret_cast<std::uintptr_t>(&token_);
    facts().enrolled.store(barriers::enroll(), std::memory_order_relaxed);
    if (yama_restricts())
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

void arena::open_file()
{
    start_time_ = start_time_of(getpid());
    if (start_time_ == 0 || getrandom(token_.data(), sizeof(token_), 0) != sizeof(token_))
        return;
    std::uint64_t size = max_arena_size;
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) // exceeding the limit raises a signal
        size = std::min<std::uint64_t>(size, limit.rlim_cur) / machine_page() * machine_page();
    const int fd = memfd_create("softrdma", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return log::write(log::level::info, "shared memory: not created: memfd_create: %s", strerror(errno));
    // Peers depend on the size: an access beyond the end of a file raises SIGBUS.
    if (size < min_arena_size || ftruncate(fd, static_cast<off_t>(size)) != 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        log::write(log::level::info, "shared memory: not created: %llu of %llu bytes permitted (raise RLIMIT_FSIZE)",
                static_cast<unsigned long long>(size), static_cast<unsigned long long>(min_arena_size));
        close(fd);
        return;
    }
    fd_ = fd;
    size_ = size;
}

void arena::hold_liveness_futex() noexcept
{
    static robust_list word;
    static robust_list_head all;
    std::atomic<std::uint32_t> &liveness = facts().liveness;
    liveness.store(static_cast<std::uint32_t>(gettid()), std::memory_order_relaxed);
    word.next = &all.list;
    all.list.next = &word;
    all.futex_offset = reinterpret_cast<std::intptr_t>(&liveness) - reinterpret_cast<std::intptr_t>(&word);
    syscall(SYS_set_robust_list, &all,
            sizeof(all)); // replaces the list of the C library, which is empty in this thread
}

class arena::arena_block final : public block
{
public:
    arena_block(arena &owner, std::uint64_t from, std::size_t bytes) noexcept
        : block(nullptr, from, bytes), owner_(owner)
    {
    }
    ~arena_block() override
    {
        if (at != nullptr)
            owner_.release(*this);
    }

private:
    arena &owner_;
};

// All allocations precede the use of the block, so that releasing it needs no memory.
std::shared_ptr<block> arena::allocate(std::size_t size)
{
    size = whole_pages(size);
    const lock_guard lock(mutex_);
    blocks &fitting = blocks_[size];
    const bool is_new = fitting.free.empty();
    if (is_new && fitting.free.capacity() <= fitting.all)
        fitting.free.reserve(2 * fitting.all + 1);
    const std::uint64_t offset = is_new ? end_ : fitting.free.back();
    SOFTRDMA_ASSERT(offset % machine_page() == 0 && offset >= tables_size);
    if (offset + size > size_) {
        log::write(log::level::error,
                "shared memory: full: %llu bytes (destroy unused queue pairs and completion queues)",
                static_cast<unsigned long long>(size_));
        return fail_with(nullptr, ENOMEM);
    }
    auto b = std::make_shared<arena_block>(*this, offset, size);
    std::weak_ptr<block> &used = used_[offset];
    b->at = map(fd_, offset, size);
    if (b->at == nullptr) {
        log::write(log::level::error, "shared memory: block of %zu bytes not mapped: %s (see vm.max_map_count)", size,
                strerror(errno));
        return nullptr;
    }
    if (is_new) {
        end_ += size;
        ++fitting.all;
    } else {
        fitting.free.pop_back();
    }
    used = b;
    return b;
}

std::shared_ptr<block> arena::find(std::uint64_t offset)
{
    const lock_guard lock(mutex_);
    const auto found = used_.find(offset);
    return found == used_.end() ? nullptr : found->second.lock();
}

// Clears a block. Returns whether its next user finds zeros. A system call filter may reject fallocate(2).
bool arena::empty(const block &b) const noexcept
{
    if (!shared()) // the next user gets fresh private memory
        return true;
    if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(b.offset),
                static_cast<off_t>(b.size)) == 0)
        return true;
    guard_mapped_files();
    return guarded([&b] { memset(b.at, 0, b.size); });
}

// A block that still contains messages of its last user is never used again.
void arena::release(const block &b)
{
    const bool is_empty = empty(b);
    munmap(b.at, b.size);
    const lock_guard lock(mutex_);
    used_.erase(b.offset);
    if (is_empty)
        blocks_.find(b.size)->second.free.push_back(b.offset);
}

void arena::publish(const published_region &region) noexcept
{
    region_slot &to = slot(slot_index(region.key));
    to.generation.fetch_add(1, std::memory_order_relaxed);
    to.domain.store(region.domain, std::memory_order_relaxed);
    to.access.store(region.access, std::memory_order_relaxed);
    to.base.store(region.base, std::memory_order_relaxed);
    to.length.store(region.length, std::memory_order_relaxed);
    to.address.store(region.address, std::memory_order_relaxed);
    to.kind.store(region.kind, std::memory_order_relaxed);
    to.unsynced.store(0, std::memory_order_relaxed);
    to.key.store(region.key, std::memory_order_release);
}

} // namespace softrdma
