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

// The copy of this machine: its memory, and its state beside it. Functions throw failure unless they say otherwise.
class home
{
public:
    explicit home(const settings &of) : settings_(of) {}
    ~home();
    home(const home &) = delete;
    home &operator=(const home &) = delete;

    // Opens the file with its state; false: there is none.
    bool open_state();
    // The state stays known; another process may open it.
    void release_state();
    // Makes the file, unless it is there.
    void make_data(std::uint64_t length);
    // The same, and its state.
    void make(const replica::mirror_state &first);
    void map(void *hint);
    // Memory that the program has mapped.
    void adopt(void *address, std::uint64_t length);

    // The length that the settings or the file tell.
    std::uint64_t configured_length() const;
    std::byte *address() const { return address_; }
    std::uint64_t length() const { return length_; }
    rpma_mirror_level level() const { return level_; }
    bool flushes_without_system() const { return pmem_ && level_ != RPMA_MIRROR_LEVEL_VOLATILE; }

    // Compares the file with the stamp in the state. Known once the copy is mapped.
    replica::stamp_match match() const { return match_; }
    [[noreturn]] void reject_changed() const;

    const replica::mirror_state &state() const { return file_ ? file_->state() : volatile_state_; }
    void store(const replica::mirror_state &next);

    // Make a range durable; after flush() only drain() completes it. 0 or an errno; do not throw.
    int flush(replica::range r) const noexcept;
    void drain() const noexcept;
    int deep_flush(replica::range r) const noexcept;

    // Takes the pages away, which may be unreadable, so that new ones are there.
    void punch(replica::range r);

private:
    bool open_file();
    struct place {
        std::uint64_t size;
        bool is_device;
    };
    place check_kind(int fd) const;
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
    bool pmem_ = false; // flushed by the processor
    pmem2_flush_fn flush_ = nullptr;
    pmem2_drain_fn drain_ = nullptr;
};

} // namespace mirror
