// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <libpmem2.h>
#include <memory>
#include <optional>

#include "fd_owner.hpp"
#include "mirror_file.hpp"
#include "range.hpp"
#include "settings.hpp"

namespace mirror
{

// Local copy: its memory, and the state file beside it. Functions throw failure unless stated otherwise.
class local_copy
{
public:
    explicit local_copy(const settings &of) : settings_(of) {}
    ~local_copy();
    local_copy(const local_copy &) = delete;
    local_copy &operator=(const local_copy &) = delete;

    // Opens the state file. Returns false if it does not exist.
    bool open_state();
    // Closes the state file, so that another process can open it. state() stays valid.
    void release_state();
    // Creates the file unless it exists.
    void make_data(std::uint64_t length);
    // Creates the file unless it exists, and the state file.
    void make(const replica::mirror_state &first);
    void map(void *hint);
    // Extends the file by zeros, and maps it again. The length in the state is unchanged.
    void extend(std::uint64_t length, void *hint);
    // Stores the length of the copy.
    void set_length(std::uint64_t length);
    // Uses memory that the program has mapped.
    void adopt(void *address, std::uint64_t length);

    // Returns the length in bytes from the settings or the file.
    std::uint64_t configured_length() const;
    std::byte *address() const { return address_; }
    std::uint64_t length() const { return length_; }
    rpma_mirror_level level() const { return level_; }
    bool flushes_without_system() const { return pmem_ && level_ != RPMA_MIRROR_LEVEL_VOLATILE; }

    // Result of comparing the file with the stamp in the state. Valid after map() or adopt().
    replica::stamp_match match() const { return match_; }
    [[noreturn]] void reject_changed() const;

    const replica::mirror_state &state() const { return file_ ? file_->state() : volatile_state_; }
    void store(const replica::mirror_state &next);

    // Flush a range: durable after flush() and drain(), or after deep_flush(). Return 0 or an errno value.
    int flush(replica::range r) const noexcept;
    void drain() const noexcept;
    int deep_flush(replica::range r) const noexcept;

    // Replaces pages, which can be unreadable, by new ones.
    void punch(replica::range r);

private:
    void release_map();
    void map_memory(void *hint);
    void map_file(void *hint);
    void extend_file(std::uint64_t length);
    void allocate(std::uint64_t size, std::uint64_t length) const;
    replica::copy_stamp present_stamp(std::uint64_t length) const;
    void store(const replica::mirror_state &next, const replica::copy_stamp &stamp);
    bool open_file();
    struct file_kind {
        std::uint64_t size;
        bool is_device;
    };
    file_kind check_kind(int fd) const;
    void check_data(std::uint64_t length) const;
    bool check_length() const;
    void check_stamp();
    std::string remedy() const;
    void choose_flush(pmem2_map *map);

    const settings &settings_;
    replica::fd_owner data_;
    std::optional<replica::mirror_file> file_;
    replica::mirror_state volatile_state_;
    replica::stamp_match match_ = replica::stamp_match::same;
    std::byte *address_ = nullptr;
    std::uint64_t length_ = 0;
    rpma_mirror_level level_ = RPMA_MIRROR_LEVEL_VOLATILE;
    bool anonymous_map_ = false;
    pmem2_map *map_ = nullptr;
    pmem2_vm_reservation *reservation_ = nullptr;
    bool pmem_ = false; // flushed by CPU instructions
    pmem2_flush_fn flush_ = nullptr;
    pmem2_drain_fn drain_ = nullptr;
};

} // namespace mirror
