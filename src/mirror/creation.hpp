// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "discovery.hpp"

namespace mirror
{

// Operations on a set that is not open: creating it, and fencing its writer.
class creation : private discovery
{
public:
    explicit creation(set_parts &of) : discovery(of) {}

    void create();
    std::uint64_t fence(bool force);

private:
    bool find_partial_creation(replica::mirror_state &local_state);
    [[noreturn]] void reject_existing_set() const;
    void reject_foreign_copies(const replica::mirror_state &local_state, bool resuming) const;
    void create_copies(const replica::mirror_state &local_state, bool resuming);
    void each_of_all(const deadline &until, const std::function<void(remote_copy &, const deadline &)> &f);
    record first_record() const;
    void check_fence(bool force) const;
};

} // namespace mirror
