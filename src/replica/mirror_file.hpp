// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "copy_stamp.hpp"
#include "fd_owner.hpp"
#include "mirror_state.hpp"

namespace replica
{

// The file beside a copy that keeps its state: two slots, written in turn, so that what was stored last is there after
// a power failure at any moment. It is locked against other processes. One thread at a time.
class mirror_file
{
public:
    // Each returns 0 or an errno. create: EEXIST if the file is there; a file that could not be completed is not.
    // open: EBUSY if another process has it, EBADMSG if no slot is whole.
    int create(const char *path, const mirror_state &first);
    int open(const char *path);

    const mirror_state &state() const { return state_; }
    const copy_stamp &stamp() const { return stamp_; }
    // Durable when it returns 0. Otherwise what is on the medium is the old or the new state, and the file takes
    // nothing more: only what was read again may be relied on.
    int store(const mirror_state &next, const copy_stamp &stamp = {});

private:
    int lock();
    int write_slot(const mirror_state &s, const copy_stamp &stamp, std::uint64_t sequence);

    fd_owner file_;
    mirror_state state_;
    copy_stamp stamp_;
    std::uint64_t sequence_ = 0;
    int broken_ = 0;
};

} // namespace replica
