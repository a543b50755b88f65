// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/unique_fd.hpp"
#include "transport/shm/arena.hpp"

#include <cstdint>
#include <linux/futex.h>
#include <memory>
#include <span>
#include <string>
#include <sys/uio.h>
#include <unordered_map>

namespace softrdma
{

// Returns why this process and the one with that address share no memory, as known without contacting it.
no_shm_reason check_shm(const shm_address &h);
no_shm_reason check_local_shm(); // returns the reason why this process shares no memory at all, or `none` if it does

// A registered region of the peer, as found by one operation.
struct remote_region {
    std::uint32_t slot = 0;
    region_kind kind{};
    std::uint64_t generation = 0;
    std::uint64_t address = 0; // address of the operation's first byte in the peer's address space
    std::uint64_t region_address = 0;
    std::uint64_t region_length = 0;
};

enum class copy_result {
    done,
    unsupported, // this process cannot reach that memory
    fault,       // the memory does not exist
    no_peer,     // the process does not exist
};

class file_mapping;
struct file_part;
class peer_process;

// Connection to a peer, which passes its descriptors on request: no descriptor is taken from a process without its
// consent. An interface, because its only implementation is private to fd_client.cpp.
class peer_line
{
public:
    virtual ~peer_line() = default;
    virtual void serve(std::weak_ptr<peer_process> requester) = 0; // receiver of later replies
    // Requests the file of a region, for peer_process::take_file(). Returns false if the caller must retry.
    virtual bool request_file(std::uint32_t key, std::uint64_t generation) = 0;
    virtual bool broken() const noexcept = 0; // whether the process at the other end is gone
};

// Descriptors that a peer passes with its first response.
struct handover {
    unique_fd arena;
    unique_fd completion_fd; // eventfd of the receive completion queue; empty if it needs no events
    std::shared_ptr<peer_line> to_peer;
    std::uint32_t pid = 0; // process ID of the sender according to the kernel; 0 if not in the local PID namespace
};

bool is_event_descriptor(int fd) noexcept;
// Returns whether the peer's eventfd can take another event. A peer could fill it to block this process.
bool takes_event(int fd) noexcept;

// A process on this host whose arena is accessible to this process, or this process itself.
class peer_process
{
public:
    // Returns this process itself, or NULL and stores the reason if its identity does not match `h`.
    static std::shared_ptr<peer_process> self(const shm_address &h, std::string &reason);
    // Returns a process that has passed its arena. Returns NULL and stores the reason if its identity does not
    // match, or its private memory is required but not accessible.
    static std::shared_ptr<peer_process> adopt(const shm_address &h, handover &passed, std::string &reason);
    ~peer_process();

    bool is_self() const noexcept { return tables_ == nullptr; }
    // Returns true if its private memory and files are accessible without its help.
    bool is_open() const noexcept { return memory_pid_ != 0; }
    bool gone() const noexcept { return line_ != nullptr && line_->broken(); }
    // Like gone(), but without a system call; may return false for a process whose thread cannot report its end.
    bool dead() const noexcept { return (facts().liveness.load(std::memory_order_relaxed) & FUTEX_OWNER_DIED) != 0; }
    const arena_facts &facts() const noexcept
    {
        const auto *tables = reinterpret_cast<const std::byte *>(slots_) - page;
        return *reinterpret_cast<const arena_facts *>(tables + facts_offset);
    }
    bool uses_flush() const noexcept { return facts().uses_flush.load(std::memory_order_relaxed) != 0; }

    // Maps `size` bytes of the peer's arena. Returns NULL if the range is not inside it.
    std::shared_ptr<std::byte> share(std::uint64_t offset, std::size_t size) const;

    // Finds the region of the key if it belongs to one of the two domains, or a window bound in one of them, grants all
    // of `access` and contains the range. Call it and use the result only inside a section.
    bool find(std::uint32_t key, std::uint64_t domain, std::uint64_t own_domain, int access, std::uint64_t va,
            std::uint64_t bytes, remote_region &out) const noexcept;
    // Returns whether the region is still the one that find() returned.
    bool has(const remote_region &r) const noexcept
    {
        const region_slot &slot = slots_[r.slot];
        return slot.key.load(std::memory_order_acquire) != 0 &&
               slot.generation.load(std::memory_order_relaxed) == r.generation;
    }
    void mark_unsynced(const remote_region &r) const noexcept
    {
        std::atomic<std::uint32_t> &word = slots_[r.slot].unsynced;
        if (word.load(std::memory_order_relaxed) == 0)
            word.store(1, std::memory_order_relaxed);
    }

    // Copy between the memory of the peer and local memory, through the kernel.
    copy_result write(std::uint64_t to, std::span<const iovec> from) const noexcept;
    copy_result read(std::uint64_t from, std::span<const iovec> to) const noexcept;
    // Maximum size of messages for which two copies, through the arena, take less time than a system call.
    std::uint32_t bcopy_threshold() const noexcept;

    // Returns a local mapping of the peer's file behind a region; NULL if it is not available, or not yet.
    std::shared_ptr<file_mapping> mapping(const remote_region &r);
    void take_file(std::uint32_t key, std::uint64_t generation, const file_part &part);

private:
    peer_process() = default;
    std::byte *map(std::uint64_t offset, std::size_t size) const noexcept;
    bool map_tables(const shm_address &h, std::string &reason);
    bool reaches_memory(std::uint32_t pid, const shm_address &h, std::string &reason) const;

    identity identity_;
    std::uint32_t memory_pid_ = 0; // process ID with which the kernel accesses its memory; 0 if it cannot
    std::shared_ptr<peer_line> line_;
    unique_fd arena_;
    std::uint64_t arena_size_ = 0;
    std::byte *tables_ = nullptr;
    region_slot *slots_ = nullptr;

    struct mapped {
        remote_region region;
        std::shared_ptr<file_mapping> file; // NULL if it cannot be mapped or was not received yet
    };
    ordered_mutex mutex_{lock_level::regions};
    std::unordered_map<std::uint32_t, mapped> mappings_ GUARDED_BY(mutex_);
};

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

} // namespace softrdma
