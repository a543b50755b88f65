// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <optional>

#include "base/fd_owner.hpp"
#include "base/range.hpp"
#include "record/mirror_file.hpp"
#include "region/file_map.hpp"
#include "settings.hpp"

namespace mirror
{

class membership;

// Returns the length in bytes of the local copy, from the settings or its file.
std::uint64_t configured_length(const settings &of);
// Returns the set of the local copy, which another process can have open, or zero without a local copy.
replica::set_uuid read_set(const settings &of);
[[noreturn]] void reject_changed(const settings &of);

class local_copy
{
public:
    explicit local_copy(const settings &of) : settings_(of) {}
    local_copy(const local_copy &) = delete;
    local_copy &operator=(const local_copy &) = delete;

    // Opens the state file. Returns false if it does not exist.
    bool open_state();
    // Reads the state. Returns false if its file does not exist. Throws E_BUSY if another process has the set open.
    bool read_state();
    // Creates the file unless it exists, or extends one that is shorter. Requires the state.
    void make_data(std::uint64_t length);
    void make(const replica::mirror_state &first);
    // Maps the copy, or maps it again, at `hint` if possible. Reserves addresses for at least `max_length` bytes.
    void map(void *hint, std::uint64_t max_length);
    // Extends the file by zeros, without changing the length in the state and that of the mapping. Other threads may
    // flush, and may use the state with `state_lock` held.
    void extend(std::uint64_t length, membership &state_lock);
    void set_length(std::uint64_t length);
    // Adds the bytes of the last extension to the mapping. No other thread may flush.
    void add_extension();
    // Uses memory that the program has mapped.
    void adopt(void *address, std::uint64_t length);

    std::byte *address() const { return memory_.address(); }
    std::uint64_t length() const { return length_; }
    // Throws failure if the copy cannot be extended in place.
    void check_extension(std::uint64_t length) const;
    rpma_mirror_level level() const;

    // Result of comparing the file with the stamp in the state. The content is compared by map() and adopt().
    replica::stamp_match match() const { return match_; }
    // Declares that the file has the content of the set, after its resync. The next record stores its stamp.
    void accept() { match_ = replica::stamp_match::same; }

    const replica::mirror_state &state() const { return file_ ? file_->state() : volatile_state_; }
    // Stores the state, and the stamp of an unchanged copy: with the content unless a writer is promised or uses it.
    void store(const replica::mirror_state &next);

    // Returns 0, or an error code if the file became shorter: an access to the missing pages raises SIGBUS.
    int check_file() const noexcept;
    // Flushes a range, which is durable after drain(), or at once if `deep`. Returns 0 or an errno value.
    int flush(replica::range r, bool deep = false) const noexcept;
    void drain() const noexcept { memory_.drain(); }

    // Replaces pages, which can be unreadable, by new ones.
    void punch(replica::range r);

private:
    replica::copy_stamp current_stamp(std::uint64_t length) const;
    void open_file();
    void check_stamp();

    const settings &settings_;
    replica::fd_owner data_;
    bool is_device_ = false; // the file is a DAX device
    std::optional<replica::mirror_file> file_;
    replica::mirror_state volatile_state_;
    replica::stamp_match match_ = replica::stamp_match::same;
    replica::file_map memory_;              // mappings of the opening and of each extension
    std::atomic<std::uint64_t> length_ = 0; // changes while other threads read it
    std::uint64_t reserved_ = 0;            // bytes of addresses from address() on, or 0 for memory of the program
    std::atomic<bool> extending_ = false;   // the stamp has only the inode
};

} // namespace mirror
