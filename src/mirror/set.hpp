// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "background.hpp"
#include "verify.hpp"
#include "watch.hpp"

// Handle of the C functions: a set that is open for writing. Functions throw failure.
struct rpma_mirror {
public:
    explicit rpma_mirror(const mirror::settings &of);

    void open_set(void *hint, void *mapped, std::uint64_t length, bool force);
    // Resynchronizes the copies in sync if `stored` is set, commits the clean record, and ends.
    void close(bool stored = true);

    // state.cpp
    static void inspect(const mirror::settings &of, rpma_mirror_state &to);
    void state(rpma_mirror_state &to);
    void attributes(unsigned copy, rpma_mirror_attributes &to);
    void statistics(rpma_mirror_statistics &to) const;

    const mirror::local_copy &own() const { return parts.local; }
    const rpma_mirror_recovery_report &report() const { return report_; }
    // Returns whether this thread is in a callback of the program.
    bool is_in_callback() const { return parts.members.is_held_by_caller(); }

    mirror::set_parts parts;
    mirror::flusher lanes;

private:
    mirror::comparer comparer_;

public:
    mirror::resyncer targets;
    mirror::verifier verification;

private:
    rpma_mirror_recovery_report report_{};
    mirror::background_resync background_;
    mirror::watcher watcher_; // the first to be destroyed
};
