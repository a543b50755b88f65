// SPDX-License-Identifier: BSD-3-Clause
#include "replica_group.hpp"

#include <cerrno>
#include <cstring>

#include "degrade.hpp"
#include "failure.hpp"
#include "group/step.hpp"
#include "state_file.hpp"

namespace rpmem
{

using group::bit_of;
using group::copy_mask;
using group::each_copy;
using group::first_of;

namespace
{

constexpr int unreadable_memory = EFAULT; // error of a lane if the device cannot read the local memory
constexpr int fenced = ESTALE;            // error of a target that has promised the pool to another client

} // namespace

void replica_group::assign(const target_list &targets, const char *target, const char *set_name)
{
    name_ = replica_name(target, set_name);
    count_ = static_cast<unsigned>(targets.count);
    for (unsigned i = 0; i < count_; ++i)
        replicas_[i] = std::make_unique<remote_replica>(settings_, targets.texts[i], set_name);
}

int replica_group::begin(
        const replica::set_uuid &set, const replica::mirror_record &first, std::uint64_t pool_size, copy_mask in_sync)
{
    set_ = set;
    record_ = first;
    pool_size_ = pool_size;
    keeps_record_ = true;
    return commit(in_sync, 0, false);
}

// Calls f for the replicas concurrently. Returns those that failed, and stores the failure in them.
template<class F>
copy_mask replica_group::failures_of(copy_mask of, F f)
{
    const auto run = [&](unsigned index, const replica::deadline &) {
        remote_replica &rep = *replicas_[index];
        if (f(rep) == 0)
            return true;
        rep.error = errno;
        rep.reason.assign(last_failure());
        return false;
    };
    return of & ~group::run_concurrently(of, replica::deadline(0), 0, run);
}

// Commits the record on the replicas of the mask. Returns those that failed, which are declared lost.
copy_mask replica_group::commit_failures(copy_mask of, const replica::mirror_record &record)
{
    const copy_mask failed = failures_of(of, [&](remote_replica &rep) { return rep.commit(set_, pool_size_, record); });
    each_copy(failed, [&](unsigned index) { replicas_[index]->region().lost().declare(replicas_[index]->error); });
    return failed;
}

copy_mask replica_group::numbers_of(copy_mask of) const
{
    copy_mask numbers = 0;
    each_copy(of, [&](unsigned index) { numbers |= bit_of(replicas_[index]->number); });
    return numbers;
}

// Commits the record with these replicas in sync. At least one of the staying replicas must store it, so that no two
// disjoint sets of replicas are both considered in sync. Replicas that fail to store it are removed.
int replica_group::commit(copy_mask staying, copy_mask joining, bool closed)
{
    copy_mask next = staying | joining;
    if (keeps_record_) {
        replica::mirror_record wanted = record_;
        wanted.closed = closed;
        wanted.in_sync = static_cast<std::uint16_t>(numbers_of(next));
        wanted.members |= wanted.in_sync;
        group::record_change change(wanted, 0, numbers_of(staying));
        for (copy_mask failed = next; failed != 0; next &= ~failed) {
            if (change.check() != group::record_change::verdict::commit)
                return -1;
            record_ = change.propose(record_.version + 1);
            failed = commit_failures(next, record_);
            change.remove(numbers_of(failed));
        }
    }
    const copy_mask before = in_sync_;
    in_sync_.store(next, std::memory_order_release);
    report_lost(before & ~next);
    return 0;
}

// Evicts lost replicas before data is acknowledged without them. The last replicas in sync are not evicted: then
// RPMEM_ON_LOSS applies. Unreadable local memory evicts no replica, because all replicas need it.
int replica_group::evict(copy_mask failed)
{
    {
        const std::lock_guard guard(membership_);
        const copy_mask now = in_sync_;
        const copy_mask gone = failed & now;
        if (gone == 0 && lost_ == 0)
            return 0; // evicted by another thread
        const copy_mask staying = now & ~gone;
        const auto has = [&](copy_mask of, int error) {
            bool found = false;
            each_copy(of, [&](unsigned index) { found = found || replicas_[index]->lost() == error; });
            return found;
        };
        const bool unreadable = has(gone, unreadable_memory);
        if (lost_ == 0 && !unreadable && staying != 0 && commit(staying, 0, false) == 0)
            return 0;
        const int error = unreadable ? unreadable_memory : has(now, fenced) ? fenced : replicas_[first_of(now)]->lost();
        if (lost_ == 0)
            lost_.store(error, std::memory_order_release);
    }
    return outcome(lost_);
}

void replica_group::report_lost(copy_mask of)
{
    each_copy(of, [&](unsigned index) {
        remote_replica &rep = *replicas_[index];
        if (!rep.recorded_lost)
            report_degraded(rep.name(), rep.lost());
        rep.recorded_lost = true;
    });
}

int replica_group::fail_lost(int error)
{
    if (error == unreadable_memory)
        return fail(error,
                "%s: cannot read the memory of the program: %s (close the pool, make the memory readable, for example "
                "extend a truncated file, and open the pool again)",
                name(), std::strerror(error));
    if (error == fenced)
        return fail(error, "%s: another client has opened the pool (close the pool, and open it again)", name());
    replica::error_text how;
    if (error == ECONNRESET)
        how = replicas_[first_of(in_sync_)]->end_of_lost();
    return fail(error, "%s: replica lost: %s%s%s", name(), std::strerror(error), how.empty() ? "" : ": ", how.c_str());
}

// Returns the result of a call on a lost pool: success with RPMEM_ON_LOSS=degrade, if the local memory is readable.
int replica_group::outcome(int error)
{
    if (settings_.on_loss == on_loss::error || !opened_ || error == unreadable_memory)
        return fail_lost(error);
    if (!loss_reported_.exchange(true))
        report_lost(in_sync_);
    return 0;
}

// Sets the attributes on all replicas. If each replica rejects the request, no header was changed and none is lost.
// Otherwise the headers of those that failed differ, so they are lost.
int replica_group::set_attributes(const replica::pool_attributes &attributes)
{
    if (lost_ != 0)
        return outcome(lost_);
    const copy_mask all = in_sync_;
    const copy_mask failed = failures_of(all, [&](remote_replica &rep) { return rep.set_attributes(attributes); });
    copy_mask lost = 0;
    each_copy(failed, [&](unsigned index) {
        remote_replica &rep = *replicas_[index];
        if (failed != all)
            rep.region().lost().declare(rep.error);
        lost |= rep.lost() != 0 ? bit_of(index) : 0;
    });
    const int result = lost == 0 ? 0 : evict(lost);
    if (failed == lost)
        return result;
    const remote_replica &rejecting = *replicas_[first_of(failed & ~lost)];
    return fail_again(rejecting.error, rejecting.reason.c_str());
}

// Commits a clean record, which states that the replicas in sync are equal: the caller must have drained all lanes.
int replica_group::close()
{
    if (keeps_record_) {
        const std::lock_guard guard(membership_);
        if (lost_ == 0)
            commit(in_sync_, 0, true);
    }
    const copy_mask held = in_sync_;
    copy_mask connected = 0;
    for (unsigned index = 0; index < count_; ++index)
        connected |= replicas_[index]->is_connected() ? bit_of(index) : 0;
    const copy_mask failed = failures_of(connected, [](remote_replica &rep) { return rep.close(); });
    const copy_mask closed = held & connected & ~failed;
    if (closed != 0 && lost_ == 0) {
        each_copy(closed, [&](unsigned index) {
            if (replicas_[index]->was_created())
                record_rebuilt(replicas_[index]->name());
        });
        return 0;
    }
    if (lost_ == unreadable_memory)
        return outcome(lost_);
    const remote_replica &first = *replicas_[first_of((held & failed) != 0 ? held & failed : held)];
    if (settings_.on_loss == on_loss::error)
        return fail_again(first.error, first.reason.c_str());
    // Closing can be the first operation that detects the loss.
    each_copy(held, [&](unsigned index) { replicas_[index]->region().lost().declare(first.error); });
    return outcome(first.error);
}

} // namespace rpmem
