// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/arena.hpp"
#include "transport/shm/handover.hpp"
#include "transport/shm/identity.hpp"

#include <linux/futex.h>
#include <memory>
#include <span>
#include <string>
#include <sys/uio.h>
#include <unordered_map>

namespace softrdma::local
{

// What keeps this process and the one that said so of itself apart, as far as that can be told without asking it.
obstacle obstacle_to(const shm_address &h);
// Why this process shares no memory with anybody; none if it does.
obstacle own_obstacle();

// A registered region of the peer, as one operation sees it.
struct remote_region {
    std::uint32_t slot = 0;
    region_kind kind{};
    std::uint64_t generation = 0;
    std::uint64_t address = 0; // in the peer's address space: of the first byte of the operation
    std::uint64_t region_address = 0;
    std::uint64_t region_length = 0;
};

enum class copy_result {
    done,
    unsupported, // this process cannot reach that memory
    fault,       // the memory is not there
    no_peer,     // the process is not there
};

class file_mapping;
struct file_part;

bool is_event_descriptor(int fd) noexcept;
// Whether another event can be put into the peer's eventfd: one that the peer has filled up must not stop us.
bool takes_event(int fd) noexcept;

// A process of this host whose arena this process has: another one, or itself.
class peer_process
{
public:
    // This process itself. Empty, with the reason in `why`, if it is not what has introduced itself.
    static std::shared_ptr<peer_process> self(const shm_address &h, std::string &why);
    // A process that has handed its arena over. Empty, with the reason in `why`, if it is not what it claims to be, or
    // its private memory is out of reach and must not be.
    static std::shared_ptr<peer_process> adopt(const shm_address &h, handover &given, std::string &why);
    ~peer_process();

    bool is_self() const noexcept { return tables_ == nullptr; }
    // Its private memory and its files can be reached without its help.
    bool is_open() const noexcept { return memory_pid_ != 0; }
    bool gone() const noexcept;
    // The same without asking the kernel; a process whose thread cannot tell is never dead.
    bool dead() const noexcept;
    const arena_facts &facts() const noexcept;
    bool knows_flush() const noexcept { return facts().knows_flush.load(std::memory_order_relaxed) != 0; }

    // `size` bytes of the peer's arena. NULL if they are not inside it.
    std::shared_ptr<std::byte> share(std::uint64_t offset, std::size_t size) const;

    // False unless the key names a region of one of the two domains, or a window that is bound in it, with all of
    // `access` that contains the range. To be called, and the answer to be used, inside an epoch only.
    bool find(std::uint32_t key, std::uint64_t domain, std::uint64_t own_domain, int access, std::uint64_t va,
            std::uint64_t bytes, remote_region &out) const noexcept;
    // Whether the region is still what find() has found.
    bool has(const remote_region &r) const noexcept
    {
        const region_slot &slot = slots_[r.slot];
        return slot.key.load(std::memory_order_acquire) != 0 &&
               slot.generation.load(std::memory_order_relaxed) == r.generation;
    }
    void mark_unsynced(const remote_region &r) const noexcept;

    // Between the peer's memory and ours, through the kernel.
    copy_result write(std::uint64_t to, std::span<const iovec> from) const noexcept;
    copy_result read(std::uint64_t from, std::span<const iovec> to) const noexcept;
    // Messages of up to that many bytes arrive sooner if they are copied twice, through the arena.
    std::uint32_t bcopy_threshold() const noexcept;

    // The peer's shared file behind a region, in our address space; NULL if it cannot be had, or has to come first.
    std::shared_ptr<file_mapping> mapping(const remote_region &r);
    // The file behind a region has come, or nothing.
    void take_file(std::uint32_t key, std::uint64_t generation, const file_part &part);

private:
    peer_process() = default;
    std::byte *map(std::uint64_t offset, std::size_t size) const noexcept;
    bool map_tables(const shm_address &h, std::string &why);
    bool reaches_memory(std::uint32_t pid, const shm_address &h, std::string &why) const;

    identity who_;
    std::uint32_t memory_pid_ = 0; // by which the kernel reaches its memory for us; 0: it does not
    std::unique_ptr<peer_line> line_;
    unique_fd arena_;
    std::uint64_t arena_size_ = 0;
    std::byte *tables_ = nullptr;
    region_slot *slots_ = nullptr;

    struct mapped {
        remote_region region;
        std::shared_ptr<file_mapping> file; // NULL: cannot be mapped, or is still to come
    };
    ordered_mutex mutex_{lock_level::regions};
    std::unordered_map<std::uint32_t, mapped> mappings_ GUARDED_BY(mutex_);
};

inline const arena_facts &peer_process::facts() const noexcept
{
    const auto *tables = reinterpret_cast<const std::byte *>(slots_) - page;
    return *reinterpret_cast<const arena_facts *>(tables + facts_offset);
}

inline bool peer_process::dead() const noexcept
{
    return (facts().liveness.load(std::memory_order_relaxed) & FUTEX_OWNER_DIED) != 0;
}

inline bool peer_process::find(std::uint32_t key, std::uint64_t domain, std::uint64_t own_domain, int access,
        std::uint64_t va, std::uint64_t bytes, remote_region &out) const noexcept
{
    const std::uint32_t index = slot_index(key);
    const region_slot &slot = slots_[index];
    if (key == 0 || slot.key.load(std::memory_order_acquire) != key)
        return false;
    const auto granted = static_cast<int>(slot.access.load(std::memory_order_relaxed));
    const std::uint64_t base = slot.base.load(std::memory_order_relaxed);
    const std::uint64_t length = slot.length.load(std::memory_order_relaxed);
    const std::uint64_t found = slot.domain.load(std::memory_order_relaxed);
    if ((found != domain && found != own_domain) || (granted & access) != access || va < base || bytes > length ||
            va - base > length - bytes)
        return false;
    out.slot = index;
    out.generation = slot.generation.load(std::memory_order_relaxed);
    out.kind = slot.kind.load(std::memory_order_relaxed);
    out.region_address = slot.address.load(std::memory_order_relaxed);
    out.region_length = length;
    out.address = out.region_address + (va - base);
    return true;
}

inline void peer_process::mark_unsynced(const remote_region &r) const noexcept
{
    std::atomic<std::uint32_t> &word = slots_[r.slot].unsynced;
    if (word.load(std::memory_order_relaxed) == 0)
        word.store(1, std::memory_order_relaxed);
}

} // namespace softrdma::local
