// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <libpmem2.h>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

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
    // Maps the copy, at `hint` if possible, and reserves addresses for at least `max_length` bytes.
    void map(void *hint, std::uint64_t max_length);
    // Extends the file by zeros, without changing the length in the state and that of the mapping. Other threads may
    // flush, and may use the state with `state_lock` held.
    template<class Lock>
    void extend(std::uint64_t length, Lock &state_lock);
    // Stores the length of the copy.
    void set_length(std::uint64_t length);
    // Adds the bytes of the last extension to the mapping. No other thread may flush.
    void add_extension();
    // Uses memory that the program has mapped.
    void adopt(void *address, std::uint64_t length);

    // Returns the length in bytes from the settings or the file.
    std::uint64_t configured_length() const;
    std::byte *address() const { return address_; }
    // Length of the mapping.
    std::uint64_t length() const { return length_; }
    // Throws failure if the copy cannot be extended in place.
    void check_extension(std::uint64_t length) const;
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
    void map_memory(void *hint);
    void map_file(void *hint);
    void reserve(void *hint);
    pmem2_map *new_map(std::uint64_t begin, std::uint64_t length) const;
    void allocate(std::uint64_t begin, std::uint64_t length) const;
    void create_extension(std::uint64_t length);
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
    struct map_deleter {
        void operator()(pmem2_map *map) const { pmem2_map_delete(&map); }
    };
    struct reservation_deleter {
        void operator()(pmem2_vm_reservation *reservation) const { pmem2_vm_reservation_delete(&reservation); }
    };

    const settings &settings_;
    replica::fd_owner data_;
    std::optional<replica::mirror_file> file_;
    replica::mirror_state volatile_state_;
    replica::stamp_match match_ = replica::stamp_match::same;
    std::byte *address_ = nullptr;
    std::atomic<std::uint64_t> length_ = 0; // changes while other threads read it
    std::uint64_t reserved_ = 0;            // bytes of addresses from address_ on, or 0 for memory of the program
    std::atomic<bool> extending_ = false;   // the file has no stamp
    rpma_mirror_level level_ = RPMA_MIRROR_LEVEL_VOLATILE;
    bool anonymous_map_ = false;
    std::unique_ptr<pmem2_vm_reservation, reservation_deleter> reservation_;
    std::uint64_t reservation_offset_ = 0;
    // Adjacent mappings of the file: one of the opening, and one of each extension.
    std::vector<std::unique_ptr<pmem2_map, map_deleter>> maps_;
    std::unique_ptr<pmem2_map, map_deleter> extension_; // not yet in maps_
    std::uint64_t extended_length_ = 0;
    bool pmem_ = false; // flushed by CPU instructions
    pmem2_flush_fn flush_ = nullptr;
    pmem2_drain_fn drain_ = nullptr;
};

// A file without a stamp is accepted, but compared with a target.
template<class Lock>
void local_copy::extend(std::uint64_t length, Lock &state_lock)
{
    check_extension(length);
    std::uint64_t begin = 0;
    bool has_stamp = false;
    {
        const std::lock_guard guard(state_lock);
        begin = state().length;
        has_stamp = file_ && file_->stamp().size != 0 && match_ == replica::stamp_match::same;
    }
    const auto store_stamp = [&](const replica::copy_stamp &stamp) {
        const std::lock_guard guard(state_lock);
        extending_ = stamp.size == 0;
        store(state(), stamp);
    };
    const auto take_stamp = [&] {
        const std::lock_guard guard(state_lock);
        return present_stamp(state().length);
    };
    if (file_)
        replica::extend_files(has_stamp, store_stamp, take_stamp, [&] { allocate(begin, length); });
    extending_ = false;
    create_extension(length);
}

} // namespace mirror
