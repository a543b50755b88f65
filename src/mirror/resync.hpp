// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "compare.hpp"
#include "flush.hpp"

namespace mirror
{

// Returns the target of a copy. Throws E_NOT_FOUND. The caller must hold the membership lock.
remote_copy &target_of(const remote_copies &copies, unsigned copy);

// Exclusive claim of one thread on a target's copy for a long operation, such as a resync. Cancels a background resync
// that has claimed the copy. Throws E_NOT_FOUND, and E_BUSY for any other claim. remove_target() rejects the copy.
class exclusive_copy
{
public:
    // `preempt`: cancels this claim if another thread needs the copy.
    exclusive_copy(membership &of, const remote_copies &copies, unsigned number, replica::loss *preempt);
    ~exclusive_copy();
    exclusive_copy(const exclusive_copy &) = delete;
    exclusive_copy &operator=(const exclusive_copy &) = delete;

    remote_copy &copy;

private:
    membership &membership_;
};

// Resynchronization, addition and removal of targets while the program writes.
class resyncer
{
public:
    resyncer(set_parts &of, flusher &lanes, comparer &with);

    void resync(unsigned copy, const limits &within);
    // Adds a copy, which is not in sync.
    void create_target(unsigned copy, const char *location, const char *set_name);
    // Creates the target and resynchronizes it. If the resync fails, the copy stays in the set.
    void add_target(unsigned copy, const char *location, const char *set_name, const limits &within);
    void remove_target(unsigned copy);

private:
    using deadline = replica::deadline;

    bool is_unchanged(const remote_copy &c, const replica::mirror_record &found) const;
    void connect_again(remote_copy &c, const deadline &until);
    void run_resync(remote_copy &c, const limits &within);
    void compare_dirty(comparison &job, std::uint64_t end);
    void compare_missed(comparison &job);
    void store_cursor(remote_copy &c, const deadline &until);
    void join(remote_copy &c);
    void revert_join(remote_copy &c);

    set_parts &parts_;
    settings &settings_;
    membership &membership_;
    events &events_;
    local_copy &local_;
    remote_copies &copies_;
    flusher &flusher_;
    comparer &comparer_;
};

} // namespace mirror
