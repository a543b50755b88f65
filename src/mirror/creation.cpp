// SPDX-License-Identifier: BSD-3-Clause
#include "creation.hpp"

#include "attach.hpp"

#include <algorithm>
#include <sys/random.h>

#include "failure.hpp"

using namespace mirror;

// Steps: store a local state without a record, commit the record on all targets, store the promise of its epoch. An
// interrupted creation is recognized by the missing promise, and the next call resumes it.
void creation::create()
{
    replica::mirror_state local_state;
    const bool resuming = find_partial_creation(local_state);
    membership_.writer.set = local_state.set;
    connect_all(scope::all, deadline(settings_.open_ms / 4 + 1));
    reject_foreign_copies(local_state, resuming);
    if (local_state.committed.epoch == 0) {
        create_copies(local_state, resuming);
        local_state.committed = first_record();
        local_.store(local_state);
    }
    membership_.writer.promise = {local_state.committed.epoch, local_state.committed.writer};
    each_of_all(deadline(settings_.open_ms / 4 + 1), [&](const remote_copy &c, const deadline &until) {
        replica::request r = membership_.writer.make_promise_request(c);
        to_wire(local_state.committed, *r.mutable_commit()->mutable_record());
        c.control->call(r, until);
    });
    local_state.promised = membership_.writer.promise;
    local_.store(local_state);
}

// Calls f for each target concurrently. Throws the failure of a target if one fails.
void creation::each_of_all(const deadline &until, const std::function<void(remote_copy &, const deadline &)> &f)
{
    std::uint32_t all = 0;
    for (const auto &c : copies_)
        all |= c ? c->bit() : 0;
    each_in_parallel(all, scope::all, until, f);
    each_copy(all & ~responded(), [&](unsigned copy) { throw *copies_[copy]->error; });
}

// Reads the state of an interrupted creation and returns true, or initializes that of a new set. Throws E_EXISTS.
bool creation::find_partial_creation(replica::mirror_state &local_state)
{
    if (local_.open_state()) {
        local_state = local_.state();
        if (local_state.committed.epoch != 0 && local_state.committed.epoch <= local_state.promised.epoch)
            reject_existing_set();
        if (settings_.length != 0 && settings_.length != local_state.length)
            throw failure(RPMA_MIRROR_E_INVAL, "set creation in progress with length " +
                                                       std::to_string(local_state.length) + " (use the same length)");
        check_local_copy();
        return true;
    }
    local_state.copy = settings_.local_number;
    local_state.length = configured_length(settings_);
    if (local_state.length == 0)
        throw failure(RPMA_MIRROR_E_INVAL, "length of the set: required if the local file does not exist");
    if (getrandom(local_state.set.data(), local_state.set.size(), 0) != static_cast<ssize_t>(local_state.set.size()))
        throw system_failure("cannot get random bytes");
    return false;
}

void creation::reject_existing_set() const
{
    throw failure(RPMA_MIRROR_E_EXISTS, "local copy already exists: " + settings_.state_path);
}

void creation::reject_foreign_copies(const replica::mirror_state &local_state, bool resuming) const
{
    const replica::mirror_promise creators{local_state.committed.epoch, local_state.committed.writer};
    for (const auto &c : copies_) {
        if (!c)
            continue;
        if (!c->responded) {
            if (c->last_error != RPMA_MIRROR_E_NOT_FOUND || local_state.committed.epoch != 0)
                throw *c->error;
            continue;
        }
        const std::string where = "target " + c->where.name() + " has a copy of " + c->where.set_name;
        if (!resuming || c->last_state.set != local_state.set || c->last_state.copy != c->where.copy ||
                c->last_state.length != local_state.length)
            throw failure(RPMA_MIRROR_E_EXISTS,
                    where + (c->last_state.committed.epoch == 0 ? " from another interrupted creation" : "") +
                            " (remove its state there if it is unused)");
        if (local_state.committed.epoch == 0 ? c->last_state.committed.epoch != 0 : c->last_state.promised != creators)
            throw failure(RPMA_MIRROR_E_EXISTS, where + ": the set already exists");
    }
}

void creation::create_copies(const replica::mirror_state &local_state, bool resuming)
{
    if (resuming)
        local_.make_data(local_state.length);
    else
        local_.make(local_state);
    std::uint64_t max_epoch = local_state.promised.epoch;
    for (const auto &c : copies_)
        if (c && c->responded)
            max_epoch = std::max(max_epoch, c->last_state.promised.epoch);
    membership_.writer.promise = {max_epoch + 1, group::new_writer_id()};
    const std::uint32_t created = responded();
    each_of_all(deadline(settings_.open_ms / 2 + 1), [&](const remote_copy &c, const deadline &until) {
        if ((created & c.bit()) == 0)
            create_copy(membership_, c, *c.control, local_state.length, until);
        c.control->call(membership_.writer.make_prepare_request(c), until);
    });
}

creation::record creation::first_record() const
{
    record first =
            group::first_record(membership_.writer.promise, {}, membership_.local_bit() | settings_.target_copies());
    first.version = 1;
    first.writer_copy = settings_.local_number;
    first.policy = settings_.policy;
    return first;
}

std::uint64_t creation::fence(bool force)
{
    const deadline until(settings_.open_ms);
    membership_.writer.set = read_set(settings_);
    find_set(until.share(4));
    acquire_from_arbiter(true, until.share(3));
    check_fence(force);
    acquire_epoch(true, false, until.share(2));
    prepare_all(until.share(1));
    check_fence(force);
    return membership_.writer.promise.epoch;
}

// Throws E_UNFENCED unless enough targets respond. Called before the first promise, too: promises cannot be revoked.
void creation::check_fence(bool force) const
{
    if (responded() == 0)
        throw failure(RPMA_MIRROR_E_UNFENCED, "no target promised: the writer can continue (fence it again)");
    if (const std::uint32_t missing = required_targets(newest_) & ~responded(); missing != 0 && !force)
        throw_incomplete(missing, RPMA_MIRROR_E_UNFENCED, "a writer can continue with it");
}
