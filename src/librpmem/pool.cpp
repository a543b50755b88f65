// SPDX-License-Identifier: BSD-3-Clause
// An open pool: its data path, and legs that are lost.
#include "pool.hpp"

#include <cerrno>
#include <cstring>

#include "degrade.hpp"
#include "failure.hpp"
#include "locked.hpp"
#include "state_file.hpp"

using namespace rpmem;
using replica::range;

namespace
{

// Error with which a lane fails whose local memory the device cannot read.
constexpr int unreadable_memory = EFAULT;

} // namespace

// f works on a leg in sync, and returns 0 or an errno, with which the leg is lost.
template<class F>
int rpmem_pool::on_each(F f)
{
    if (const int lost = lost_.load(std::memory_order_acquire); lost != 0)
        return outcome(lost);
    legs failed = 0;
    each(in_sync_.load(std::memory_order_acquire), [&](unsigned index) {
        leg &l = *legs_[index];
        const int error = l.lost() != 0 ? l.lost() : f(l);
        if (error == 0)
            return;
        failed |= 1U << index;
        l.region().lost().declare(error);
    });
    return failed == 0 ? 0 : evict(failed);
}

// Those that do not keep the record, whatever happened to them.
rpmem_pool::legs rpmem_pool::refused_by(legs of, const replica::mirror_record &record)
{
    legs refused = 0;
    each(of, [&](unsigned index) {
        leg &l = *legs_[index];
        if (l.lost() == 0 && l.commit(set_, pool_size_, record) == 0)
            return;
        l.region().lost().declare(l.lost() != 0 ? l.lost() : errno);
        refused |= 1U << index;
    });
    return refused;
}

// Makes durable that these legs are in sync: first on those that were before, of which one at least has to know it, so
// that no two sets of legs without a common one believe that they have everything. Who does not take it leaves.
int rpmem_pool::commit(legs staying, legs joining, bool closed)
{
    while (keeps_record_) {
        replica::mirror_record next = record_;
        ++next.version;
        next.closed = closed;
        next.in_sync = 0;
        each(staying | joining,
                [&](unsigned index) { next.in_sync |= static_cast<std::uint16_t>(1U << legs_[index]->number); });
        next.members |= next.in_sync;
        record_ = next;
        legs refused = refused_by(staying, next);
        if (refused == staying)
            return -1;
        refused |= refused_by(joining, next);
        if (refused == 0)
            break;
        staying &= ~refused;
        joining &= ~refused;
    }
    const legs before = in_sync_;
    in_sync_.store(staying | joining, std::memory_order_release);
    tell_lost(before & ~staying);
    return 0;
}

// The legs are lost, and leave before anything is acknowledged without them. The last ones do not: what that means for
// the program is what RPMEM_ON_LOSS says. Unreadable memory of this program evicts no replica, because all of them need
// it.
int rpmem_pool::evict(legs failed)
{
    {
        const locked hold(membership_);
        const legs now = in_sync_;
        const legs gone = failed & now;
        if (gone == 0 && lost_ == 0)
            return 0; // another thread was faster
        const legs staying = now & ~gone;
        bool unreadable = false;
        each(gone, [&](unsigned index) { unreadable = unreadable || legs_[index]->lost() == unreadable_memory; });
        if (lost_ == 0 && !unreadable && staying != 0 && commit(staying, 0, false) == 0)
            return 0;
        if (lost_ == 0)
            lost_.store(unreadable ? unreadable_memory : legs_[static_cast<unsigned>(__builtin_ctz(now))]->lost(),
                    std::memory_order_release);
    }
    return outcome(lost_);
}

void rpmem_pool::tell_lost(legs of)
{
    each(of, [&](unsigned index) {
        leg &l = *legs_[index];
        if (!l.recorded_lost)
            tell_degraded(l.name(), l.lost());
        l.recorded_lost = true;
    });
}

int rpmem_pool::fail_lost(int error)
{
    if (error == unreadable_memory)
        return fail(error,
                "%s: the program's memory cannot be read: %s: close the pool, make the memory readable (is a mapped "
                "file too short?) and open the pool again",
                name_.c_str(), std::strerror(error));
    replica::error_text how;
    if (error == ECONNRESET)
        how = legs_[static_cast<unsigned>(__builtin_ctz(in_sync_))]->end_of_lost();
    return fail(error, "%s is lost: %s%s%s", name_.c_str(), std::strerror(error), how.empty() ? "" : ": ", how.c_str());
}

// Returns the result of a call on a lost pool. With RPMEM_ON_LOSS=degrade the program continues, unless it has made its
// own memory unreadable: then no replica is at fault.
int rpmem_pool::outcome(int error)
{
    if (settings_.on_loss == on_loss::error || !opened_ || error == unreadable_memory)
        return fail_lost(error);
    if (!loss_told_.exchange(true))
        tell_lost(in_sync_);
    return 0;
}

int rpmem_pool::flush(range r, unsigned lane)
{
    return on_each([&](leg &l) { return l.region().lane(lane).flush(r); });
}

int rpmem_pool::drain(unsigned lane, replica::lane_request_kind kind)
{
    // Targets work at the same time.
    if (count_ > 1)
        if (const int result = on_each([&](leg &l) { return l.region().lane(lane).begin_drain(kind); }); result != 0)
            return result;
    return on_each([&](leg &l) { return l.region().lane(lane).drain(kind); });
}

int rpmem_pool::read(void *to, range r, unsigned lane)
{
    while (lost_ == 0) {
        const auto first = static_cast<unsigned>(__builtin_ctz(in_sync_));
        replica::region &from = legs_[first]->region();
        const int error = from.lost().error() != 0 ? from.lost().error() : from.lane(lane).read(to, r);
        if (error == 0)
            return 0;
        if (evict(1U << first) != 0)
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
                                       : "a pool without header has no attributes");
    if (!has_header)
        return 0;
    // What the first target refuses is no loss; after that the headers would differ.
    bool refused = false, set = false;
    const int result = on_each([&](leg &l) {
        if (refused)
            return 0;
        if (l.set_attributes(next) == 0) {
            set = true;
            return 0;
        }
        refused = l.lost() == 0 && !set;
        return refused ? 0 : l.lost() != 0 ? l.lost() : errno;
    });
    return refused ? -1 : result;
}

// So that the legs are equal, and say so.
void rpmem_pool::settle()
{
    for (unsigned lane = 0; lane < lanes_ && lost_ == 0; ++lane)
        drain(lane, replica::lane_request_kind::flush);
    const locked hold(membership_);
    if (lost_ == 0)
        commit(in_sync_, 0, true);
}

int rpmem_pool::close()
{
    if (keeps_record_)
        settle();
    const legs held = in_sync_;
    legs closed = 0;
    int error = 0;
    for (unsigned index = 0; index < count_; ++index) {
        if (!legs_[index]->is_connected())
            continue;
        if (legs_[index]->close() == 0)
            closed |= 1U << index & held;
        else if ((held >> index & 1) != 0 && error == 0)
            error = errno;
    }
    if (closed != 0 && lost_ == 0) {
        each(closed, [&](unsigned index) {
            if (legs_[index]->was_created())
                record_made_again(legs_[index]->name());
        });
        return 0;
    }
    if (lost_ == unreadable_memory)
        return outcome(lost_);
    if (settings_.on_loss == on_loss::error) {
        errno = error;
        return -1;
    }
    // Nothing may have noticed the loss but this.
    each(held, [&](unsigned index) { legs_[index]->region().lost().declare(error); });
    return outcome(error);
}

int rpmem_pool::check_lane(unsigned lane) const
{
    if (lane >= lanes_)
        return fail(EINVAL, "there is no lane %u: the pool has %u", lane, lanes_);
    return 0;
}

int rpmem_pool::check_writable(range r) const
{
    if (r.offset < data_begin_)
        return fail(EINVAL, "offset %zu is in the header of the pool, which ends at %zu",
                static_cast<std::size_t>(r.offset), static_cast<std::size_t>(data_begin_));
    return check_readable(r);
}

int rpmem_pool::check_readable(range r) const
{
    if (!range_fits(r, 0, size_))
        return fail(EINVAL, "%zu bytes from offset %zu on do not lie within the pool of %zu bytes",
                static_cast<std::size_t>(r.length), static_cast<std::size_t>(r.offset),
                static_cast<std::size_t>(size_));
    return 0;
}
