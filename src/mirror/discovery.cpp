// SPDX-License-Identifier: BSD-3-Clause
#include "discovery.hpp"

#include <algorithm>

#include "failure.hpp"
#include "step.hpp"

using namespace mirror;

namespace
{

// Returns an epoch above each that another machine can have: epochs grow more slowly than the milliseconds since 1970.
// If a clock was wrong, and known epochs are ahead of it, adds more openings than other machines can have made.
std::uint64_t epoch_of_time(std::uint64_t max_epoch)
{
    constexpr std::uint64_t max_openings = 1 << 16;
    const auto now_ms = static_cast<std::uint64_t>(replica::now_ns(CLOCK_REALTIME) / 1'000'000);
    return now_ms > max_epoch ? now_ms : max_epoch + max_openings;
}

// Returns whether the error concerns more than one copy. Without descriptors or memory, no target seems reachable.
bool concerns_whole_set(int code)
{
    return code == RPMA_MIRROR_E_FENCED || code == RPMA_MIRROR_E_LEVEL_TOO_LOW || code == RPMA_MIRROR_E_CANCELED ||
           code == RPMA_MIRROR_E_SYSTEM || code == RPMA_MIRROR_E_NOMEM;
}

} // namespace

discovery::discovery(set_parts &of)
    : settings_(of.configured), membership_(of.members), arbiter_(*of.decider), renewal_(of.renewal), local_(of.local),
      copies_(of.copies)
{
}

std::uint32_t discovery::responded() const
{
    std::uint32_t bits = 0;
    for (const auto &c : copies_)
        if (c && c->responded)
            bits |= c->bit();
    return bits;
}

std::uint32_t discovery::changed() const
{
    std::uint32_t bits = 0;
    each_copy(responded(), [&](unsigned copy) {
        const replica::mirror_state &last_state = copies_[copy]->last_state;
        const record &committed = last_state.committed;
        // If the writer died before its record reached the target, only the arbiter has the newest record.
        const bool has_newest = committed.epoch == newest_.epoch && committed.version == newest_.version;
        if (has_changed_parts(last_state) && (has_newest || (required_targets(newest_) >> copy & 1) != 0))
            bits |= 1U << copy;
    });
    return bits;
}

// Calls f for each copy concurrently. With scope::needed, optional targets get a grace period after the required ones.
void discovery::each_in_parallel(std::uint32_t copies, scope awaited, const deadline &until,
        const std::function<void(remote_copy &, const deadline &)> &f)
{
    query_copies(copies_, copies, until, newest_, f, [&](std::uint32_t responded) {
        return awaited == scope::needed &&
               group::has_required(newest_, required_targets(newest_), copies, responded, local_is_newest());
    });
    for (const auto &c : copies_)
        if (c && concerns_whole_set(c->last_error))
            throw *c->error;
}

void discovery::connect_all(scope awaited, const deadline &until, const std::function<void(const remote_copy &)> &check)
{
    const replica::tls_keys key = read_key(settings_.key_file);
    for (const target_settings &t : settings_.targets)
        copies_[t.copy] = std::make_unique<remote_copy>(t);
    each_in_parallel(settings_.target_copies(), awaited, until, [&](remote_copy &c, const deadline &within) {
        c.control = std::make_unique<channel>(c.where, key, within);
        c.last_state = replica::from_wire(c.control->call(c.make_state_request({}), within).state());
        if (check)
            check(c);
    });
}

void discovery::check_local_copy() const
{
    if (local_.state().copy != settings_.local_number)
        throw failure(RPMA_MIRROR_E_INVAL, settings_.local_path + " is copy " + std::to_string(local_.state().copy) +
                                                   ", not " + std::to_string(settings_.local_number));
}

// Throws failure if the configuration has a larger length than the set. A set that has grown can have a larger one.
void discovery::check_length(std::uint64_t length) const
{
    if (settings_.length > length)
        throw failure(RPMA_MIRROR_E_INVAL, "length of the set: " + std::to_string(length) + " bytes, but " +
                                                   std::to_string(settings_.length) +
                                                   " in the configuration (use rpma-mirror grow)");
}

// The record of another set must not become the newest one, so a target with another set counts as unresponsive.
void discovery::find_set(const deadline &until)
{
    const replica::set_uuid known = membership_.writer.set;
    connect_all(scope::needed, until, [&](const remote_copy &c) { c.check_identity(c.last_state, known); });
    if (responded() != 0)
        membership_.writer.set = common_set(copies_, responded());
    if (membership_.writer.set == replica::set_uuid{})
        throw_not_found("the set does not exist (create it first)");
}

void discovery::throw_not_found(const char *reason) const
{
    for (const auto &c : copies_)
        if (c && !c->responded && (c->last_error != RPMA_MIRROR_E_NOT_FOUND || c->last_state.length != 0))
            throw *c->error;
    throw failure(RPMA_MIRROR_E_NOT_FOUND, reason);
}

void discovery::acquire_from_arbiter(bool seize, const deadline &until)
{
    arbiters_ = arbiter_.newest(membership_.writer.set, seize, until);
    if (is_newer(arbiters_, newest_))
        newest_ = arbiters_;
}

void discovery::acquire_epoch(bool seize, bool overrides, const deadline &until)
{
    std::uint64_t max_epoch = std::max(local_.state().promised.epoch, newest_.epoch);
    for (const auto &c : copies_)
        if (c && c->responded)
            max_epoch = std::max({max_epoch, c->last_state.promised.epoch, c->last_state.committed.epoch});
    // The copies that a forced opening ignores can have higher epochs, but its records must be the newest.
    const std::uint64_t epoch = overrides ? epoch_of_time(max_epoch) : max_epoch + 1;
    renewal_.stop();
    membership_.writer.promise = arbiter_.acquire({epoch, group::new_writer_id()}, seize, arbiters_, until);
    renewal_.start();
    if (is_newer(arbiters_, newest_))
        newest_ = arbiters_;
}

void discovery::prepare_all(const deadline &until)
{
    each_in_parallel(responded(), scope::needed, until, [&](remote_copy &c, const deadline &within) {
        c.last_state = replica::from_wire(c.control->call(membership_.writer.make_prepare_request(c), within).state());
    });
}

void discovery::throw_incomplete(std::uint32_t missing, int code, const char *consequence) const
{
    // The reason of a target that responded is a fault that can be removed.
    const failure *reason = nullptr;
    bool rejected = false;
    each_copy(missing, [&](unsigned copy) {
        const auto &c = copies_[copy];
        if (rejected || !c || !c->error)
            return;
        rejected = c->error->code() != RPMA_MIRROR_E_TIMEOUT && c->error->code() != RPMA_MIRROR_E_CONNECTION;
        if (rejected || reason == nullptr)
            reason = &*c->error;
    });
    const char *const remedy = rejected ? "remove the cause, or "
                               : (missing & ~settings_.target_copies()) != 0
                                       ? "add it to the set file with rpma-mirror add, or "
                                       : "";
    throw failure(code,
            settings_.names_of(missing) +
                    (rejected ? " in sync, but rejected the request" : " in sync but unreachable") +
                    (reason != nullptr ? std::string(" (") + reason->what() + ")" : "") + ": " + consequence + " (" +
                    remedy + "use force to override)",
            reason != nullptr ? reason->system() : 0);
}

// Returns whether the local copy is the newest. A writer commits a record at the arbiter first: if it died then, its
// local copy only has the promise. After an interrupted repair the arbiter's record excludes the local copy.
bool discovery::local_is_newest() const
{
    const replica::mirror_state &local_state = local_.state();
    const bool wrote = local_state.promised == replica::mirror_promise{newest_.epoch, newest_.writer} &&
                       (local_state.committed.epoch != newest_.epoch ||
                               (local_state.committed.in_sync & membership_.local_bit()) != 0);
    return newest_.writer_copy == settings_.local_number && (local_state.committed == newest_ || wrote) &&
           (newest_.in_sync & membership_.local_bit()) != 0;
}
