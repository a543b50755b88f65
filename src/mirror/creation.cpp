// SPDX-License-Identifier: BSD-3-Clause
// What is done to a set without opening it: creating, and fencing its writer.
#include "set.hpp"

#include <algorithm>
#include <sys/random.h>

#include "failure.hpp"

using namespace mirror;
using replica::request_type;

namespace mirror
{

std::uint64_t random_writer()
{
    std::uint64_t number = 0;
    while (number == 0)
        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            throw system_failure("cannot get random bytes");
    return number;
}

} // namespace mirror

// At home first there is a state without a record, then the record, and only when all targets have it the promise of
// its epoch: a creation that was interrupted is recognised, and goes on when it is asked for again.
void rpma_mirror::create(const settings &of)
{
    rpma_mirror m(of);
    replica::mirror_state own;
    const bool begun = m.find_begun(own);
    m.set_ = own.set;
    m.connect_all(scope::all, deadline(of.open_ms / 4 + 1));
    m.refuse_foreign(own, begun);
    if (own.committed.epoch == 0) {
        m.create_copies(own, begun);
        own.committed = m.first_record();
        m.home_.store(own);
    }
    m.promise_ = {own.committed.epoch, own.committed.writer};
    m.each_of_all(deadline(of.open_ms / 4 + 1), [&](const remote_copy &c, const deadline &until) {
        replica::request r = m.about_promise(c, request_type::mirror_commit);
        r.mirror.record = own.committed;
        c.control->ask(r, until);
    });
    own.promised = m.promise_;
    m.home_.store(own);
}

// Does f with each target: all are needed.
void rpma_mirror::each_of_all(const deadline &until, const std::function<void(remote_copy &, const deadline &)> &f)
{
    std::uint32_t all = 0;
    for (const auto &c : copies_)
        all |= c ? c->bit() : 0;
    each_in_parallel(all, scope::all, until, f);
    each_copy(all & ~answered(), [&](unsigned copy) { throw *copies_[copy]->problem; });
}

// What a creation before has left at home, or else what a new one begins with. Throws E_EXISTS if there is a set.
bool rpma_mirror::find_begun(replica::mirror_state &own)
{
    if (home_.open_state()) {
        own = home_.state();
        if (own.committed.epoch != 0 && own.committed.epoch <= own.promised.epoch)
            refuse_existing();
        if (settings_.length != 0 && settings_.length != own.length)
            throw failure(RPMA_MIRROR_E_INVAL,
                    "the set was begun with " + std::to_string(own.length) + " bytes: ask for these again");
        check_home_copy();
        return true;
    }
    own.copy = settings_.home_copy;
    own.length = home_.configured_length();
    if (own.length == 0)
        throw failure(RPMA_MIRROR_E_INVAL, "the set needs a length: there is no file yet that has one");
    if (getrandom(own.set.data(), own.set.size(), 0) != static_cast<ssize_t>(own.set.size()))
        throw system_failure("cannot get random bytes");
    return false;
}

void rpma_mirror::refuse_existing() const
{
    throw failure(RPMA_MIRROR_E_EXISTS, "there is a home copy: " + settings_.state_path);
}

// The targets have nothing yet, or what this creation has made.
void rpma_mirror::refuse_foreign(const replica::mirror_state &own, bool begun) const
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
        if (!begun || c->known.set != own.set || c->known.copy != c->where.copy || c->known.length != own.length)
            throw failure(RPMA_MIRROR_E_EXISTS,
                    where + (c->known.committed.epoch == 0 ? " that somebody began to create" : "") +
                            ": remove its state there if it is not needed");
        if (own.committed.epoch == 0 ? c->known.committed.epoch != 0 : c->known.promised != creators)
            throw failure(RPMA_MIRROR_E_EXISTS, where + ": the set exists already");
    }
}

void rpma_mirror::create_copies(const replica::mirror_state &own, bool begun)
{
    if (begun)
        home_.make_data(own.length);
    else
        home_.make(own);
    std::uint64_t highest = own.promised.epoch;
    for (const auto &c : copies_)
        if (c && c->answered)
            highest = std::max(highest, c->known.promised.epoch);
    promise_ = {highest + 1, random_writer()};
    const std::uint32_t made = answered();
    each_of_all(deadline(settings_.open_ms / 2 + 1), [&](const remote_copy &c, const deadline &until) {
        if ((made & c.bit()) == 0)
            create_copy(c, *c.control, own.length, until);
        c.control->ask(about_promise(c, request_type::mirror_prepare), until);
    });
}

// On a target; the answer to a request before may have been lost.
void rpma_mirror::create_copy(const remote_copy &c, channel &control, std::uint64_t length, const deadline &until) const
{
    replica::request r = about_promise(c, request_type::mirror_create);
    r.mirror.length = length;
    try {
        control.ask(r, until);
    } catch (const failure &problem) {
        if (problem.code() != RPMA_MIRROR_E_EXISTS)
            throw;
        const replica::mirror_state there = control.ask(c.about(request_type::mirror_status, set_), until).mirror;
        if (there.set != set_ || there.copy != c.where.copy || there.length != length)
            throw;
    }
}

rpma_mirror::record rpma_mirror::first_record() const
{
    record first;
    first.epoch = promise_.epoch;
    first.version = 1;
    first.writer = promise_.writer;
    first.writer_copy = settings_.home_copy;
    first.policy = settings_.policy;
    first.members = static_cast<std::uint16_t>(home_bit());
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
    m.learn_set();
    m.ask_arbiter(true, until.share(3));
    m.refuse_fence(force);
    m.take_epoch(true, until.share(2));
    m.prepare_all(until.share(1));
    m.refuse_fence(force);
    return m.promise_.epoch;
}

// A promise that a target has made cannot be revoked, so this is checked before any promise, too.
void rpma_mirror::refuse_fence(bool force) const
{
    if (answered() == 0)
        throw failure(RPMA_MIRROR_E_UNFENCED, "no target made a promise: the writer can continue (fence it again)");
    if (const std::uint32_t missing = needed_targets(newest_) & ~answered(); missing != 0 && !force)
        refuse_without(missing, RPMA_MIRROR_E_UNFENCED, "a writer can continue with it");
}
