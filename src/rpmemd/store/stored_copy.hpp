// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <optional>
#include <span>
#include <string>

#include "config/config.hpp"
#include "record/mirror_file.hpp"
#include "store/pool.hpp"
#include "store/set_lock.hpp"

namespace rpmemd
{

// State file and parts of this target's copy of a mirrored set, and the stamp by which a later daemon detects that the
// parts were replaced or changed. Not thread-safe.
class stored_copy
{
public:
    enum class user {
        writer,
        reader
    };

    stored_copy(const config &settings, const std::string &name);

    bool is_open() const { return file_.has_value(); }
    // Opens the state file. Returns false if it does not exist.
    bool open();
    void create(const replica::mirror_state &first);
    // Valid after open() or create().
    const replica::mirror_state &state() const { return file_->state(); }
    const std::string &state_path() const { return state_path_; }
    // Stores the state. The stamp changes only with the record and at the end of a resync.
    void store(const replica::mirror_state &next);

    void open_parts(user by);
    // Closes the parts if only readers needed them.
    void release_parts();
    pool &parts() { return *pool_; }
    std::span<const std::byte> content() const;
    // Returns whether the parts have been open since a writer or promise needed them, so no process replaced them.
    bool are_parts_known() const { return parts_known_; }
    // Returns whether the parts were replaced or changed since the record was stored. After a crash of the writer,
    // other content and times are not a change. Parts that cannot be opened count as unchanged.
    bool has_changed(user by);

    // Makes the open parts long enough. Releases the lock while the files are extended, because a disk can be slow or
    // stop: other threads may then use the copy, but not change its length. Parts without a stamp count as unchanged.
    void extend(std::uint64_t length, std::unique_lock<set_lock> &lock);
    // Waits, without the lock, while another thread extends the parts. Returns false after 10 seconds.
    bool wait_for_extension(std::unique_lock<set_lock> &lock);
    void set_length(std::uint64_t length);

private:
    void store(const replica::mirror_state &next, const replica::copy_stamp &stamp);
    replica::copy_stamp next_stamp(const replica::mirror_state &next);
    replica::copy_stamp current_stamp(const replica::mirror_state &of, bool is_quiet);

    const config &settings_;
    const std::string name_;
    const std::string state_path_;
    std::optional<replica::mirror_file> file_;
    std::optional<pool> pool_;
    bool parts_known_ = false;
    std::condition_variable_any extended_;
    bool extending_ = false; // a thread extends the parts without the lock, and the copy has no stamp
};

} // namespace rpmemd
