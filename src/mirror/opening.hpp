// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "compare.hpp"
#include "discovery.hpp"

namespace mirror
{

// Opening of a set for writing, which promotes this machine if another one had the set (docs/replication.md).
class opening : private discovery
{
public:
    opening(set_parts &of, comparer &with);

    // Maps the local copy, or adopts `mapped`. `grow_to`: new length of the set, or 0 to keep its length.
    rpma_mirror_recovery_report open_set(
            void *hint, void *mapped, std::uint64_t length, bool force, std::uint64_t grow_to);

private:
    bool open_local_copy();
    void create_local_copy(std::uint64_t length);
    void choose_source(bool force);
    void check_choice(const group::source_choice &choice) const;
    std::uint64_t source_length() const;
    void map_local_copy(
            void *hint, void *mapped, std::uint64_t length, std::uint64_t required_length, std::uint64_t max_length);
    void extend_local_copy(std::uint64_t length);
    void check_local_level() const;
    void grow(std::uint64_t length);
    void attach_all(const deadline &until);
    bool local_is_equal() const;
    bool fetch_from(remote_copy &source);
    void resync_copies(bool force);
    void commit_first_record(bool force);

    set_parts &parts_;
    comparer &comparer_;

    // Required targets, and the source.
    std::uint32_t needed_ = 0;
    bool overrides_ = false; // true if force overrides a reason to reject the opening
    unsigned source_ = 0;
    rpma_mirror_recovery_report report_{};
};

} // namespace mirror
