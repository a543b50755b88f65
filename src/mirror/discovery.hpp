// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include "parts.hpp"

namespace mirror
{

// Finds the newest record of a set that is not open, and acquires an epoch.
class discovery
{
public:
    using record = replica::mirror_record;
    using deadline = replica::deadline;
    enum class scope {
        all,
        needed // targets that the newest record requires
    };

    explicit discovery(set_parts &of);

    void start_with(const record &first) { newest_ = first; }
    // Reads the states of all targets. A target for which `check` throws counts as unresponsive.
    void connect_all(
            scope awaited, const deadline &until, const std::function<void(const remote_copy &)> &check = nullptr);
    std::uint32_t responded() const;

protected:
    void check_local_copy() const;
    void check_length(std::uint64_t length) const;
    // Connects the targets of the set of the writer. If this is zero, the targets identify the set.
    void find_set(const deadline &until);
    [[noreturn]] void throw_not_found(const char *reason) const;
    void acquire_from_arbiter(bool seize, const deadline &until);
    void acquire_epoch(bool seize, bool overrides, const deadline &until);
    void prepare_all(const deadline &until);
    [[noreturn]] void throw_incomplete(std::uint32_t missing, int code, const char *consequence) const;
    bool local_is_newest() const;
    void each_in_parallel(std::uint32_t copies, scope awaited, const deadline &until,
            const std::function<void(remote_copy &, const deadline &)> &f);
    // Targets that responded with changed parts, and that are in sync in the newest record or had stored it.
    std::uint32_t changed() const;

    const settings &settings_;
    membership &membership_;
    arbiter &arbiter_;
    lease_renewal &renewal_;
    local_copy &local_;
    remote_copies &copies_;

    record newest_, arbiters_;
};

} // namespace mirror
