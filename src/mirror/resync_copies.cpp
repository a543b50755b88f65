// SPDX-License-Identifier: BSD-3-Clause
// Makes the copies of a set equal while it is opened.
#include "compare.hpp"

#include <thread>

#include "failure.hpp"
#include "step.hpp"

using namespace mirror;

// Copies with the closed record are equal. Others are compared: caches write back data that was never flushed.
bool rpma_mirror::is_equal(const record &held) const
{
    return newest_.closed && held == newest_;
}

bool rpma_mirror::home_is_equal() const
{
    return is_equal(home_.state().committed) && home_.match() == replica::stamp_match::same;
}

// Copies the source to the local copy. Returns false if the source was lost, which then no longer counts as answered.
bool rpma_mirror::fetch_from(remote_copy &source)
{
    comparison job(source, direction::from_target, settings_.levelling);
    job.total = home_is_equal() && is_equal(source.known.committed) ? 0 : home_.length();
    try {
        compare(job, 0, job.total);
    } catch (const failure &problem) {
        const bool at_home = problem.code() == RPMA_MIRROR_E_MEDIA && problem.system() == 0;
        if (at_home || problem.code() == RPMA_MIRROR_E_CANCELED)
            throw;
        source.problem = problem;
        source.last_error = problem.code();
        source.answered = false;
        return false;
    }
    report_.sent_bytes += job.sent;
    report_.compared_bytes += job.done;
    return true;
}

void rpma_mirror::make_level(bool force)
{
    const bool equal_at_home = home_is_equal();
    while (source_ != settings_.home_copy && !fetch_from(*copies_[source_])) {
        if (!force)
            throw failure(RPMA_MIRROR_E_INTERRUPTED, std::string("the source was lost during the opening: ") +
                                                             copies_[source_]->problem->what() +
                                                             " (open the set again)");
        choose_source(force);
    }
    // What was stored and not flushed may have been seen: it must not be gone after the next power failure.
    int flushed = 0;
    std::jthread flushing;
    if (!equal_at_home) {
        flushing = quiet_thread([&] {
            flushed = home_.flush({0, home_.length()});
            home_.drain();
        });
    }
    std::atomic<std::uint64_t> sent = 0, compared = 0;
    const std::uint32_t changed_copies = changed();
    each_in_parallel(answered() & ~(1U << source_), scope::all, deadline(0), [&](remote_copy &c, const deadline &) {
        comparison job(c, direction::to_target, settings_.levelling);
        job.total = is_equal(c.known.committed) && (changed_copies & c.bit()) == 0 ? 0 : home_.length();
        compare(job, 0, job.total);
        sent += job.sent;
        compared += job.done;
    });
    if (flushing.joinable())
        flushing.join();
    if (flushed != 0)
        throw failure(RPMA_MIRROR_E_MEDIA, "the home copy cannot be written back");
    report_.sent_bytes += sent;
    report_.compared_bytes += compared;
}
