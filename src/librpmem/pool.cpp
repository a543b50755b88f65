// SPDX-License-Identifier: BSD-3-Clause
// Open pool: data path and eviction of lost replicas.
#include "pool.hpp"

#include <cerrno>
#include <cstring>

#include "degrade.hpp"
#include "failure.hpp"
#include "group/step.hpp"
#include "state_file.hpp"

using namespace rpmem;
using group::bit_of;
using group::copy_mask;
using group::each_copy;
using group::first_of;
using replica::range;

namespace
{

// Error of a lane if the device cannot read the local memory.
constexpr int unreadable_memory = EFAULT;
// Error of a target that has promised the pool to another client.
constexpr int fenced = ESTALE;

} // namespace

// Calls f for each replica in sync. f returns 0, or an errno value with which the replica is declared lost.
template<class F>
int rpmem_pool::for_each_in_sync(F f)
{
    if (const int lost = lost_.load(std::memory_order_acquire); lost != 0)
        return outcome(lost);
    copy_mask failed = 0;
    each_copy(in_sync_.load(std::memory_order_acquire), [&](unsigned index) {
        remote_replica &rep = *replicas_[index];
        const int error = rep.lost() != 0 ? rep.lost() : f(rep);
        if (error == 0)
            return;
        failed |= bit_of(index);
        rep.region().lost().declare(error);
    });
    return failed == 0 ? 0 : evict(failed);
}

// Commits the record on the replicas of the mask concurrently. Returns those that failed, which are declared lost.
copy_mask rpmem_pool::commit_failures(copy_mask of, const replica::mirror_record &record)
{
    const auto commit_one = [&](unsigned index, const replica::deadline &) {
        remote_replica &rep = *replicas_[index];
        const int lost = rep.lost();
        const int result =
                lost == 0 ? rep.commit(set_, pool_size_, record) : fail(lost, "target lost: %s", std::strerror(lost));
        if (result == 0)
            return true;
        rep.region().lost().declare(errno);
        rep.reason.assign(last_failure());
        return false;
    };
    // Each request has a deadline of its own.
    return of & ~group::run_concurrently(of, replica::deadline(0), 0, commit_one);
}

// Returns the copy numbers of replicas.
copy_mask rpmem_pool::numbers_of(copy_mask of) const
{
    copy_mask numbers = 0;
    each_copy(of, [&](unsigned index) { numbers |= bit_of(replicas_[index]->number); });
    return numbers;
}

// Commits the record with these replicas in sync. At least one of the staying replicas must store it. Otherwise two
// disjoint sets of replicas could both be considered in sync. Replicas that fail to store it are removed.
int rpmem_pool::commit(copy_mask staying, copy_mask joining, bool closed)
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

// Evicts lost replicas before data is acknowledged without them. The last replicas in sync are not evicted:
// RPMEM_ON_LOSS determines the result of the call. Unreadable local memory evicts no replica, because all replicas need
// it.
int rpmem_pool::evict(copy_mask failed)
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

void rpmem_pool::report_lost(copy_mask of)
{
    each_copy(of, [&](unsigned index) {
        remote_replica &rep = *replicas_[index];
        if (!rep.recorded_lost)
            report_degraded(rep.name(), rep.lost());
        rep.recorded_lost = true;
    });
}

int rpmem_pool::fail_lost(int error)
{
    if (error == unreadable_memory)
        return fail(error,
                "%s: cannot read the memory of the program: %s (close the pool, make the memory readable, for example "
                "extend a truncated file, and open the pool again)",
                name_.c_str(), std::strerror(error));
    if (error == fenced)
        return fail(error, "%s: another client has opened the pool (close the pool, and open it again)", name_.c_str());
    replica::error_text how;
    if (error == ECONNRESET)
        how = replicas_[first_of(in_sync_)]->end_of_lost();
    return fail(error, "%s: replica lost: %s%s%s", name_.c_str(), std::strerror(error), how.empty() ? "" : ": ",
            how.c_str());
}

// Returns the result of a call on a lost pool. With RPMEM_ON_LOSS=degrade the program continues, unless its own memory
// is unreadable.
int rpmem_pool::outcome(int error)
{
    if (settings_.on_loss == on_loss::error || !opened_ || error == unreadable_memory)
        return fail_lost(error);
    if (!loss_reported_.exchange(true))
        report_lost(in_sync_);
    return 0;
}

int rpmem_pool::flush(range r, unsigned lane)
{
    return for_each_in_sync([&](remote_replica &rep) { return rep.region().lane(lane).flush(r); });
}

int rpmem_pool::drain(unsigned lane, replica::lane_request_kind kind)
{
    // Submits to all targets before waiting, so that they work concurrently.
    if (count_ > 1)
        if (const int result = for_each_in_sync(
                    [&](remote_replica &rep) { return rep.region().lane(lane).begin_drain(kind); });
                result != 0)
            return result;
    return for_each_in_sync([&](remote_replica &rep) { return rep.region().lane(lane).drain(kind); });
}

int rpmem_pool::read(void *to, range r, unsigned lane)
{
    while (lost_ == 0) {
        const auto first = first_of(in_sync_);
        replica::region &from = replicas_[first]->region();
        const int error = from.lost().error() != 0 ? from.lost().error() : from.lane(lane).read(to, r);
        if (error == 0)
            return 0;
        if (evict(bit_of(first)) != 0)
            return -1;
    }
    return fail_lost(lost_);
}

int rpmem_pool::set_attributes(const rpmem_pool_attr *attributes)
{
    replica::pool_attributes next;
    static_assert(sizeof(*attributes) == sizeof(next));
    if (attributes != nullptr)
        std::memcpy(static_cast<void *>(&next), attributes, sizeof(next));
    const bool has_header = data_begin_ != 0;
    if (is_zero(next) == has_header)
        return fail(EINVAL, has_header ? "a pool with a header cannot have attributes that are all zero"
                                       : "a pool without a header cannot have attributes");
    if (!has_header)
        return 0;
    // An error of the first target is not a loss, because no header was changed yet. Later errors leave the headers
    // different.
    bool rejected = false, set = false;
    const int result = for_each_in_sync([&](remote_replica &rep) {
        if (rejected)
            return 0;
        if (rep.set_attributes(next) == 0) {
            set = true;
            return 0;
        }
        rejected = rep.lost() == 0 && !set;
        return rejected ? 0 : rep.lost() != 0 ? rep.lost() : errno;
    });
    return rejected ? -1 : result;
}

// Drains all lanes and commits a clean record, which states that the replicas in sync are equal.
void rpmem_pool::mark_clean()
{
    for (unsigned lane = 0; lane < lanes_ && lost_ == 0; ++lane)
        drain(lane, replica::lane_request_kind::flush);
    const std::lock_guard guard(membership_);
    if (lost_ == 0)
        commit(in_sync_, 0, true);
}

int rpmem_pool::close()
{
    if (keeps_record_)
        mark_clean();
    const copy_mask held = in_sync_;
    copy_mask closed = 0;
    int error = 0;
    for (unsigned index = 0; index < count_; ++index) {
        if (!replicas_[index]->is_connected())
            continue;
        if (replicas_[index]->close() == 0)
            closed |= bit_of(index) & held;
        else if ((held & bit_of(index)) != 0 && error == 0)
            error = errno;
    }
    if (closed != 0 && lost_ == 0) {
        each_copy(closed, [&](unsigned index) {
            if (replicas_[index]->was_created())
                record_rebuilt(replicas_[index]->name());
        });
        return 0;
    }
    if (lost_ == unreadable_memory)
        return outcome(lost_);
    if (settings_.on_loss == on_loss::error) {
        errno = error;
        return -1;
    }
    // The close can be the first operation that detects the loss.
    each_copy(held, [&](unsigned index) { replicas_[index]->region().lost().declare(error); });
    return outcome(error);
}

int rpmem_pool::check_lane(unsigned lane) const
{
    if (lane >= lanes_)
        return fail(EINVAL, "lane %u: out of range: the pool has %u lanes", lane, lanes_);
    return 0;
}

int rpmem_pool::check_writable(range r) const
{
    if (r.offset < data_begin_)
        return fail(EINVAL, "offset %zu: inside the pool header, which ends at %zu", static_cast<std::size_t>(r.offset),
                static_cast<std::size_t>(data_begin_));
    return check_readable(r);
}

int rpmem_pool::check_readable(range r) const
{
    if (!range_fits(r, 0, size_))
        return fail(EINVAL, "range of %zu bytes at offset %zu: outside the pool of %zu bytes",
                static_cast<std::size_t>(r.length), static_cast<std::size_t>(r.offset),
                static_cast<std::size_t>(size_));
    return 0;
}
