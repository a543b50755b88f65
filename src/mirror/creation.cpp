// SPDX-License-Identifier: BSD-3-Clause
// Operations on a set that is not open: creating it, and fencing its writer.
#include "set.hpp"

#include <algorithm>
#include <sys/random.h>

#include "failure.hpp"

using namespace mirror;
using replica::request_type;

namespace mirror
{

std::uint64_t new_writer_id()
{
    std::uint64_t number = 0;
    while (number == 0)
        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            throw system_failure("cannot get random bytes");
    return number;
}

} // namespace mirror

// Steps: store a local state without a record, commit the record on all targets, store the promise of its epoch. An
// interrupted creation is recognized by the missing promise, and the next call resumes it.
void rpma_mirror::create(const settings &of)
{
    rpma_mirror m(of);
    replica::mirror_state own;
    const bool resuming = m.find_partial_creation(own);
    m.set_ = own.set;
    m.connect_all(scope::all, deadline(of.open_ms / 4 + 1));
    m.reject_foreign_copies(own, resuming);
    if (own.committed.epoch == 0) {
        m.create_copies(own, resuming);
        own.committed = m.first_record();
        m.local_.store(own);
    }
    m.promise_ = {own.committed.epoch, own.committed.writer};
    m.each_of_all(deadline(of.open_ms / 4 + 1), [&](const remote_copy &c, const deadline &until) {
        replica::request r = m.make_promise_request(c, request_type::mirror_commit);
        r.mirror.record = own.committed;
        c.control->ask(r, until);
    });
    own.promised = m.promise_;
    m.local_.store(own);
}

// Calls f for each target concurrently. Throws the failure of a target if one fails.
void rpma_mirror::each_of_all(const deadline &until, const std::function<void(remote_copy &, const deadline &)> &f)
{
    std::uint32_t all = 0;
    for (const auto &c : copies_)
        all |= c ? c->bit() : 0;
    each_in_parallel(all, scope::all, until, f);
    each_copy(all & ~answered(), [&](unsigned copy) { throw *copies_[copy]->problem; });
}

// Reads the local state of an interrupted creation and returns true, or initializes the state of a new set. Throws
// E_EXISTS if the set exists.
bool rpma_mirror::find_partial_creation(replica::mirror_state &own)
{
    if (local_.open_state()) {
        own = local_.state();
        if (own.committed.epoch != 0 && own.committed.epoch <= own.promised.epoch)
            reject_existing_set();
        if (settings_.length != 0 && settings_.length != own.length)
            throw failure(RPMA_MIRROR_E_INVAL,
                    "set creation in progress with length " + std::to_string(own.length) + " (use the same length)");
        check_local_copy();
        return true;
    }
    own.copy = settings_.local_number;
    own.length = local_.configured_length();
    if (own.length == 0)
        throw failure(RPMA_MIRROR_E_INVAL, "length of the set: required if the local file does not exist");
    if (getrandom(own.set.data(), own.set.size(), 0) != static_cast<ssize_t>(own.set.size()))
        throw system_failure("cannot get random bytes");
    return false;
}

void rpma_mirror::reject_existing_set() const
{
    throw failure(RPMA_MIRROR_E_EXISTS, "local copy already exists: " + settings_.state_path);
}

// Rejects targets with a copy that this creation has not created.
void rpma_mirror::reject_foreign_copies(const replica::mirror_state &own, bool resuming) const
{
    const replica::mirror_promise creators{own.committed.epoch, own.committed.writer};
    for (const auto &c : copies_) {
        if (!c)
            continue;
        if (!c->answered) {
            if (c->last_error != RPMA_MIRROR_E_NOT_FOUND || own.committed.epoch != 0)
                throw *c->problem;
            continue;
        }
        const std::string where = "target " + c->where.name() + " has a copy of " + c->where.set_name;
        if (!resuming || c->known.set != own.set || c->known.copy != c->where.copy || c->known.length != own.length)
            throw failure(RPMA_MIRROR_E_EXISTS,
                    where + (c->known.committed.epoch == 0 ? " from another interrupted creation" : "") +
                            " (remove its state there if it is unused)");
        if (own.committed.epoch == 0 ? c->known.committed.epoch != 0 : c->known.promised != creators)
            throw failure(RPMA_MIRROR_E_EXISTS, where + ": the set already exists");
    }
}

void rpma_mirror::create_copies(const replica::mirror_state &own, bool resuming)
{
    if (resuming)
        local_.make_data(own.length);
    else
        local_.make(own);
    std::uint64_t highest = own.promised.epoch;
    for (const auto &c : copies_)
        if (c && c->answered)
            highest = std::max(highest, c->known.promised.epoch);
    promise_ = {highest + 1, new_writer_id()};
    const std::uint32_t created = answered();
    each_of_all(deadline(settings_.open_ms / 2 + 1), [&](const remote_copy &c, const deadline &until) {
        if ((created & c.bit()) == 0)
            create_copy(c, *c.control, own.length, until);
        c.control->ask(make_promise_request(c, request_type::mirror_prepare), until);
    });
}

// Creates the copy on a target. A copy that exists is accepted if an earlier request created it and its response was
// lost.
void rpma_mirror::create_copy(const remote_copy &c, channel &control, std::uint64_t length, const deadline &until) const
{
    replica::request r = make_promise_request(c, request_type::mirror_create);
    r.mirror.length = length;
    try {
        control.ask(r, until);
    } catch (const failure &problem) {
        if (problem.code() != RPMA_MIRROR_E_EXISTS)
            throw;
        const replica::mirror_state existing =
                control.ask(c.make_request(request_type::mirror_status, set_), until).mirror;
        if (existing.set != set_ || existing.copy != c.where.copy || existing.length != length)
            throw;
    }
}

rpma_mirror::record rpma_mirror::first_record() const
{
    record first;
    first.epoch = promise_.epoch;
    first.version = 1;
    first.writer = promise_.writer;
    first.writer_copy = settings_.local_number;
    first.policy = settings_.policy;
    first.members = static_cast<std::uint16_t>(local_bit());
    for (const target_settings &t : settings_.targets)
        first.members = static_cast<std::uint16_t>(first.members | 1U << t.copy);
    first.in_sync = first.members;
    return first;
}

std::uint64_t rpma_mirror::fence(const settings &of, bool force)
{
    rpma_mirror m(of);
    const deadline until(of.open_ms);
    m.connect_all(scope::needed, until.share(4));
    m.identify_set();
    m.ask_arbiter(true, until.share(3));
    m.check_fence(force);
    m.acquire_epoch(true, until.share(2));
    m.prepare_all(until.share(1));
    m.check_fence(force);
    return m.promise_.epoch;
}

// Throws E_UNFENCED unless enough targets respond. Also checked before any promise, because a promise cannot be
// revoked.
void rpma_mirror::check_fence(bool force) const
{
    if (answered() == 0)
        throw failure(RPMA_MIRROR_E_UNFENCED, "no target promised: the writer can continue (fence it again)");
    if (const std::uint32_t missing = needed_targets(newest_) & ~answered(); missing != 0 && !force)
        throw_incomplete(missing, RPMA_MIRROR_E_UNFENCED, "a writer can continue with it");
}
