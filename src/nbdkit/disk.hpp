// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <librpma_mirror.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace nbdkit_mirror
{

struct disk_options {
    unsigned lanes = 16;
    bool force = false;
    bool resync = true; // false disables background resynchronization
};

// Block device in a mirrored set. A write goes to free blocks, and its headers take effect as soon as they and the
// data match; the replaced blocks keep their content until the new ones are durable. docs/disk.md describes the format.
class disk
{
public:
    // Called from any thread, once with the reason if the disk fails permanently, and for each event.
    using failed_function = std::function<void(const std::string &reason)>;
    using event_function = std::function<void(const std::string &line)>;

    // Opens the set. Throws std::runtime_error with one line.
    disk(rpma_mirror_cfg *cfg, const disk_options &options, failed_function failed, event_function event);
    ~disk();
    disk(const disk &) = delete;
    disk &operator=(const disk &) = delete;

    std::uint64_t size() const { return logical_ * block_size; }
    bool failed() const { return failed_; }

    // Return 0 or an errno value, EIO after a permanent failure. The range must be inside the disk.
    int read(char *to, std::uint64_t offset, std::uint64_t count) noexcept;
    int write(const char *from, std::uint64_t offset, std::uint64_t count, bool durable) noexcept;
    int zero(std::uint64_t offset, std::uint64_t count, bool durable) noexcept;
    int flush() noexcept;
    // Returns the length of the extent at offset, at most count, and sets `hole` if it is a hole.
    std::uint64_t extent(std::uint64_t offset, std::uint64_t count, bool &hole) const noexcept;

    // Closes the set. Throws std::runtime_error if it was closed, but not cleanly.
    void close();

    static constexpr std::uint64_t block_size = 4096;

private:
    struct superblock;
    struct header;
    struct lane {
        std::mutex lock;
        std::uint64_t ticket = 0;
    };
    struct chunk;

    static constexpr unsigned chunk_blocks = 32;
    static constexpr std::uint32_t hole = 1U << 31;
    static constexpr std::uint32_t none = ~0U;

    void set_layout(std::uint64_t length);
    void format();
    void load();
    void erase(std::uint64_t block);
    void store_clean(std::uint64_t clean);
    std::uint64_t hash_of(const header &h, std::uint64_t block) const noexcept;
    char *data(std::uint64_t block) const noexcept { return address_ + data_ + block * block_size; }

    void copy_blocks(char *to, std::uint64_t offset, std::uint64_t count) noexcept;
    int put(const char *from, std::uint64_t offset, std::uint64_t count, bool durable) noexcept;
    int put_chunk(const char *from, std::uint64_t offset, std::uint64_t count, bool wait) noexcept;
    int fill(chunk &p, const char *from, std::uint64_t offset, std::uint64_t count) noexcept;
    int allocate(unsigned count, std::uint32_t *blocks) noexcept;
    std::size_t in_ring(std::size_t i) const noexcept { return i < free_.size() ? i : i - free_.size(); }
    lane &take_lane(unsigned &number) noexcept;
    int drain() noexcept;
    int fail(const char *message) noexcept;
    void on_event(const rpma_mirror_event &event);
    static std::int64_t boot_time_ms() noexcept;
    int confirm() noexcept;
    void background(const std::stop_token &stop);

    const failed_function failed_function_;
    const event_function event_function_;
    std::atomic<bool> failed_ = false;

    rpma_mirror *mirror_ = nullptr;
    char *address_ = nullptr;
    superblock *super_ = nullptr;
    header *headers_ = nullptr;
    std::uint64_t data_ = 0;
    std::uint64_t blocks_ = 0;
    std::uint64_t logical_ = 0;

    std::vector<lane> lanes_;
    std::atomic<unsigned> next_lane_ = 0;
    std::atomic<std::uint64_t> sequence_ = 0;
    std::vector<std::atomic<std::uint32_t>>
            map_;                    // block of each logical block, or `none`; with the bit `hole`, it reads as zeros
    std::vector<std::mutex> groups_; // locks of writers, by logical block

    std::mutex pool_;                 // protects the four members below
    std::vector<std::uint32_t> free_; // a ring
    std::size_t free_first_ = 0;
    std::size_t free_count_ = 0;
    std::vector<std::uint32_t> replaced_; // freed by a later drain
    std::vector<std::uint32_t> drained_;  // freed at the end of the current drain, which owns it
    std::shared_mutex readers_;           // held shared by threads that read blocks
    std::mutex draining_;
    std::atomic<std::uint64_t> drains_started_ = 0;
    std::uint64_t drains_done_ = 0;
    std::atomic<std::int64_t> confirmed_ms_ = 0; // start of the last successful confirm(), since the boot
    std::jthread background_;
};

} // namespace nbdkit_mirror
