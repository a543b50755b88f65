// SPDX-License-Identifier: BSD-3-Clause
// Resynchronization of all copies while a set is opened.
#include "opening.hpp"

#include <thread>

#include "failure.hpp"
#include "step.hpp"

using namespace mirror;

bool opening::local_is_equal() const
{
    return group::is_equal(newest_, local_.state().committed) && local_.match() == replica::stamp_match::same;
}

// Copies the source to the local copy. Returns false if the source was lost; it then counts as unresponsive.
bool opening::fetch_from(remote_copy &source)
{
    comparison job(source, direction::from_target, settings_.resync_limits);
    job.total = local_is_equal() && group::is_equal(newest_, source.last_state.committed) ? 0 : local_.length();
    try {
        comparer_.compare(job, 0, job.total);
    } catch (const failure &error) {
        const bool local_failed = error.code() == RPMA_MIRROR_E_MEDIA && error.system() == 0;
        if (local_failed || error.code() == RPMA_MIRROR_E_CANCELED)
            throw;
        source.error = error;
        source.last_error = error.code();
        source.responded = false;
        return false;
    }
    report_.sent_bytes += job.sent;
    report_.compared_bytes += job.done;
    return true;
}

void opening::resync_copies(bool force)
{
    const bool local_equal = local_is_equal();
    while (source_ != settings_.local_number && !fetch_from(*copies_[source_])) {
        if (!force)
            throw failure(RPMA_MIRROR_E_INTERRUPTED, std::string("the source was lost during the opening: ") +
                                                             copies_[source_]->error->what() + " (open the set again)");
        choose_source(force);
    }
    // Flushes the local copy: data that was stored but not flushed can have been read and must survive a power failure.
    int flushed = 0;
    std::jthread flushing;
    if (!local_equal) {
        flushing = quiet_thread([&] {
            flushed = local_.flush({0, local_.length()});
            local_.drain();
        });
    }
    std::atomic<std::uint64_t> sent = 0, compared = 0;
    const std::uint32_t changed_copies = changed();
    each_in_parallel(responded() & ~(1U << source_), scope::all, deadline(0), [&](remote_copy &c, const deadline &) {
        comparison job(c, direction::to_target, settings_.resync_limits);
        job.total = group::is_equal(newest_, c.last_state.committed) && (changed_copies & c.bit()) == 0
                            ? 0
                            : local_.length();
        comparer_.compare(job, 0, job.total);
        // The target then knows that its copy is complete, even if the first record reaches only the arbiter.
        if (job.total != 0) {
            replica::request end = membership_.writer.make_promise_request(c);
            end.mutable_cursor()->set_offset(job.total);
            c.control->call(end, deadline(settings_.operation_ms));
        }
        sent += job.sent;
        compared += job.done;
    });
    if (flushing.joinable())
        flushing.join();
    if (flushed != 0)
        throw failure(RPMA_MIRROR_E_MEDIA, "cannot flush the local copy");
    report_.sent_bytes += sent;
    report_.compared_bytes += compared;
}
