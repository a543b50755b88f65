// SPDX-License-Identifier: BSD-3-Clause
#include "set.hpp"

#include "failure.hpp"

#include <pthread.h>

using namespace mirror;

namespace
{

// Number of forks between loading the library and this process. A process of its own has another one than its parent.
unsigned fork_generation = 0;

[[gnu::constructor]] void count_forks()
{
    pthread_atfork(nullptr, nullptr, [] { ++fork_generation; });
}

} // namespace

set_parts::set_parts(const settings &of)
    : configured(of), published(configured), decider(make_arbiter(of.arbiter)), local(configured),
      renewal(*decider, lost.found), members(configured, published, *decider, local, copies, counted, changed)
{
    configured.check();
}

set_parts::~set_parts()
{
    renewal.stop();
    decider->release(replica::deadline(configured.operation_ms));
}

rpma_mirror::rpma_mirror(const settings &of)
    : parts(of), lanes(parts), comparer_(parts), targets(parts, lanes, comparer_),
      verification(parts, lanes, comparer_), growth(parts, lanes), fork_generation_(fork_generation),
      background_(parts, targets), watcher_(parts, background_), administration_(*this)
{
}

bool rpma_mirror::is_inherited() const
{
    return fork_generation_ != fork_generation;
}

std::unique_ptr<rpma_mirror> rpma_mirror::open(const settings &of, const opening_request &request)
{
    const replica::deadline until(of.open_ms);
    auto created = std::make_unique<rpma_mirror>(of);
    try {
        created->open_set(request, of.open_ms);
    } catch (const interrupted_opening &) {
        // With less time, the second attempt would find fewer targets than the first one.
        if (until.left_ms() < of.open_ms / 4)
            throw;
        created.reset();
        created = std::make_unique<rpma_mirror>(of);
        created->open_set(request, std::max(until.left_ms(), 1));
    }
    return created;
}

void rpma_mirror::open_set(const opening_request &request, int time_ms)
{
    report_ = opening(parts, comparer_, time_ms).open_set(request);
    watcher_.start();
    // A directory without space or permission for the socket does not prevent the program from using the set.
    guarded([&] { administration_.start(); });
}

// Copies unflushed stores to the targets, too. Evicts a lost target, like a flush.
void rpma_mirror::compare_copies()
{
    failed_copies failed;
    each_copy(parts.members.now().awaited, [&](unsigned copy) {
        try {
            comparison job(*parts.copies[copy], direction::to_target, {});
            job.total = parts.local.length();
            comparer_.compare(job, 0, job.total);
        } catch (const failure &error) {
            // These do not concern the target.
            if (error.code() == RPMA_MIRROR_E_FENCED || error.code() == RPMA_MIRROR_E_CHANGED)
                throw;
            failed.add(copy, error.code() == RPMA_MIRROR_E_TIMEOUT ? ETIMEDOUT : ECONNRESET);
        }
    });
    parts.members.evict(failed.bits, failed.errors);
}

// All copies must be equal before the clean record is committed.
void rpma_mirror::close(closing how)
{
    administration_.stop();
    watcher_.stop();
    background_.stop();
    if (const int code = parts.members.terminal_error(); code != 0)
        throw failure(code, std::string("mirror failed before: ") + parts.members.terminal_reason());
    if (how == closing::all_flushed)
        throw_if_failed(lanes.wait_for_all());
    const std::lock_guard guard(parts.members);
    if (how != closing::unchanged) {
        throw_if_failed(lanes.check_flushable());
        if (parts.local.flush({0, parts.local.length()}) != 0)
            throw failure(RPMA_MIRROR_E_MEDIA, "cannot flush the local copy");
        parts.local.drain();
        if (how == closing::compares || parts.may_differ)
            compare_copies();
    }
    replica::mirror_record last = parts.members.record();
    last.closed = true;
    parts.members.commit_record(last, parts.members.synced_targets());
}
