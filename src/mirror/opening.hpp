// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "compare.hpp"
#include "discovery.hpp"

namespace mirror
{

struct opening_request {
    bool force = false;
    std::uint64_t grow_to = 0; // new length of the set, or 0 to keep its length
    void *hint = nullptr;      // preferred address of the local copy
    void *mapped = nullptr;    // memory of the program that is the local copy, or NULL
    std::uint64_t mapped_length = 0;
};

// A target was lost after it had promised. The previous writer is fenced, so another attempt can only help.
class interrupted_opening : public failure
{
public:
    explicit interrupted_opening(const failure &reason) : failure(reason) {}
};

// Opening of a set for writing, which promotes this machine if another one had the set (docs/replication.md).
class opening : private discovery
{
public:
    // `time_ms`: limit of the steps before the comparison.
    opening(set_parts &of, comparer &with, int time_ms);

    rpma_mirror_recovery_report open_set(const opening_request &request);

private:
    bool open_local_copy();
    void create_local_copy(std::uint64_t length);
    void choose_source(bool force);
    void check_choice(const group::source_choice &choice) const;
    std::uint64_t source_length() const;
    void check_lengths(const opening_request &request) const;
    void map_local_copy(const opening_request &request);
    void extend_local_copy(std::uint64_t length);
    void check_local_level() const;
    void grow(std::uint64_t length);
    void attach_all(const deadline &until);
    bool is_interrupted(int code) const;
    void take_over(const opening_request &request);
    bool local_is_equal() const;
    bool fetch_from(remote_copy &source);
    void resync_copies(bool force);
    void commit_first_record(bool force);

    set_parts &parts_;
    comparer &comparer_;
    const int time_ms_;

    // Required targets, and the source.
    std::uint32_t needed_ = 0;
    bool overrides_ = false; // true if force overrides a reason to reject the opening
    unsigned source_ = 0;
    rpma_mirror_recovery_report report_{};
};

} // namespace mirror
