// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "administration.hpp"
#include "background.hpp"
#include "growth.hpp"
#include "opening.hpp"
#include "verify.hpp"
#include "watch.hpp"

namespace mirror
{

// Method by which the copies become equal at the end.
enum class closing {
    compares,    // a comparison, because the program can have stored data without flushing it
    all_flushed, // the flushes of the program, as it declared, unless one of them failed
    unchanged    // the opening: nothing was stored
};

} // namespace mirror

// Handle of the C functions: a set that is open for writing.
struct rpma_mirror {
public:
    explicit rpma_mirror(const mirror::settings &of);

    // Opens a set. If a target is lost after it has promised, opens the set once more if time is left.
    static std::unique_ptr<rpma_mirror> open(const mirror::settings &of, const mirror::opening_request &request);
    // Makes the copies in sync equal, commits the clean record, and ends.
    void close(mirror::closing how);

    static void inspect(const mirror::settings &of, rpma_mirror_state &to);
    void state(rpma_mirror_state &to);
    void attributes(unsigned copy, rpma_mirror_attributes &to);
    void statistics(rpma_mirror_statistics &to) const;
    std::string metrics();

    const mirror::local_copy &local() const { return parts.local; }
    const rpma_mirror_recovery_report &report() const { return report_; }
    bool is_in_callback() const { return parts.members.is_held_by_caller(); }
    bool is_inherited() const;

    mirror::set_parts parts;
    mirror::flusher lanes;

private:
    void open_set(const mirror::opening_request &request, int time_ms);
    void compare_copies();

    mirror::comparer comparer_;

public:
    mirror::resyncer targets;
    mirror::verifier verification;
    mirror::grower growth;

private:
    const unsigned fork_generation_;
    rpma_mirror_recovery_report report_{};
    mirror::background_resync background_;
    mirror::watcher watcher_;
    mirror::administration administration_; // the first to be destroyed
};
