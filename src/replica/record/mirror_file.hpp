// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/fd_owner.hpp"
#include "record/copy_stamp.hpp"
#include "record/mirror_state.hpp"

namespace replica
{

// State file of a copy: two slots, written alternately, so that the last stored state survives a power failure at any
// time. Locked against other processes. Not thread-safe.
class mirror_file
{
public:
    // Both return 0 or an errno value. create() returns EEXIST if the file exists, EBUSY if another process creates it,
    // and leaves no file on failure. open() returns EBUSY if another process has it open, EBADMSG if no slot is valid.
    int create(const char *path, const mirror_state &first);
    int open(const char *path);
    // Reads the last stored state of a file that another process can have open, without its lock: a process that holds
    // the lock can be stopped. The state is durable. Returns 0 or an errno value, like open().
    static int read(const char *path, mirror_state &to);

    const mirror_state &state() const { return state_; }
    const copy_stamp &stamp() const { return stamp_; }
    // Stores a state durably. Returns 0 or an errno value. After a failure, the file contains the old or the new state,
    // and all further calls fail. The file must then be opened and read again.
    int store(const mirror_state &next, const copy_stamp &stamp = {});

private:
    int lock();
    int lock_new(const char *path);
    int read_slots();
    int write_slot(const mirror_state &s, const copy_stamp &stamp, std::uint64_t sequence);

    fd_owner file_;
    mirror_state state_;
    copy_stamp stamp_;
    std::uint64_t sequence_ = 0;
    int broken_ = 0;
};

} // namespace replica
