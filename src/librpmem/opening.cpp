// SPDX-License-Identifier: BSD-3-Clause
// How a pool is created and opened. With several targets those that have everything are found by their records, and the
// others are brought level before the program gets the pool: docs/replica.md tells the rules.
#include "pool.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/random.h>

#include "contact.hpp"
#include "failure.hpp"
#include "state_file.hpp"

using namespace rpmem;
using replica::range;

namespace
{

// So much is read of two copies, and compared.
constexpr std::uint64_t step_size = 1024 * 1024;

bool differ(const replica::pool_attributes &a, const replica::pool_attributes &b)
{
    return std::memcmp(&a, &b, sizeof(a)) != 0;
}

// Has one leg what the other has. Returns the one that was lost meanwhile, or NULL. The memory is for two steps.
leg *bring_level(leg &from, leg &to, std::uint64_t size, std::byte *memory)
{
    if (differ(from.attributes(), to.attributes()) && to.set_attributes(from.attributes()) != 0) {
        to.region().lost().declare(errno);
        return &to;
    }
    std::byte *const ours = memory, *const theirs = memory + step_size;
    for (std::uint64_t at = from.region().data_begin(); at < size; at += step_size) {
        const range r{at, std::min(step_size, size - at)};
        if (from.region().lane(0).read(ours, r) != 0)
            return &from;
        replica::region_lane &lane = to.region().lane(0);
        int error = lane.read(theirs, r);
        if (error == 0 && std::memcmp(ours, theirs, r.length) != 0) {
            error = lane.write(ours, r);
        } else if (error == 0) {
            // It was written, and perhaps what would have made it durable was lost.
            error = lane.include(r);
            if (error == 0)
                error = lane.drain();
        }
        if (error != 0)
            return &to;
    }
    return nullptr;
}

} // namespace

int rpmem_pool::open(const wanted &w)
{
    target_list targets;
    if (targets.parse(w.target) != 0)
        return -1;
    name_ = replica_name(w.target, w.set_name);
    size_ = pool_size_ = w.size;
    count_ = static_cast<unsigned>(targets.count);
    for (unsigned i = 0; i < count_; ++i) {
        legs_[i].reset(new leg(settings_, targets.texts[i], w.set_name));
        if (!legs_[i])
            return fail(ENOMEM, "out of memory");
    }
    if ((w.create ? create_all(w, targets) : open_all(w, targets)) != 0)
        return undo();
    attributes_ = legs_[static_cast<unsigned>(__builtin_ctz(in_sync_))]->attributes();
    opened_ = true;
    return 0;
}

// The caller is to see why the pool could not be opened, not what became of saying so.
int rpmem_pool::undo()
{
    const int error = errno;
    const replica::error_text why(last_failure());
    legs opened = 0;
    for (unsigned i = 0; i < count_; ++i)
        if (legs_[i]->is_open())
            opened |= 1U << i;
    const auto undo_one = [](leg &l, const replica::deadline &) {
        l.undo(l.error != 0 ? l.error : l.lost());
        return 0;
    };
    on_each_target(opened, settings_.session_timeout_ms(), undo_one, [](legs) { return false; });
    if (why.view() != last_failure())
        return fail(error, "%s", why.c_str());
    errno = error;
    return -1;
}

int rpmem_pool::give_up(unsigned index, int error)
{
    const leg &l = *legs_[index];
    return count_ == 1 ? fail(error, "%s", l.why.c_str()) : fail(error, "%s: %s", l.name(), l.why.c_str());
}

int rpmem_pool::create_all(const wanted &w, const target_list &targets)
{
    const legs all = (1U << count_) - 1;
    legs ready = start(targets, true);
    // The first target chooses the UUIDs that the program did not specify.
    if (ready == all && (ready = open_pools(1, w)) == 1)
        ready |= open_pools(all & ~1U, w);
    if (ready == all)
        ready = connect(all, w);
    if (ready != all) {
        const auto first = static_cast<unsigned>(__builtin_ctz(all & ~ready));
        return give_up(first, legs_[first]->error);
    }
    keeps_record_ = count_ > 1;
    if (keeps_record_ && begin_epoch(all) != 0)
        return -1;
    for (unsigned i = 0; i < count_ && keeps_record_; ++i)
        if ((in_sync_ >> i & 1) == 0)
            return fail(legs_[i]->lost(), "%s was lost while the pool was created", legs_[i]->name());
    in_sync_ = all;
    return 0;
}

int rpmem_pool::open_all(const wanted &w, const target_list &targets)
{
    if (refuse_lost() != 0)
        return -1;
    const legs responded = start(targets, false);
    each(responded, [&](unsigned index) { pool_size_ = std::max(pool_size_, legs_[index]->known().length); });
    if (open_pools(responded, w) == 0 && count_ == 1)
        return -1;
    for (unsigned i = 0; i < count_; ++i)
        pool_size_ = std::max(pool_size_, legs_[i]->known().length);
    if (find_record() != 0)
        return -1;
    keeps_record_ = count_ > 1 || record_.epoch != 0;
    if (!keeps_record_) {
        in_sync_ = 1;
        return connect(1, w) != 0 ? 0 : -1;
    }
    legs in_sync = 0;
    if (find_in_sync(&in_sync) != 0 || check_pools(in_sync) != 0)
        return -1;
    legs equal = 0, opened = 0;
    for (unsigned i = 0; i < count_; ++i) {
        const leg &l = *legs_[i];
        if (record_.closed && l.known().committed == record_)
            equal |= 1U << i;
        if (l.is_open())
            opened |= 1U << i;
    }
    const legs connected = connect(opened, w);
    for (legs failed = opened & ~connected; failed != 0; failed &= failed - 1) {
        const auto index = static_cast<unsigned>(__builtin_ctz(failed));
        if (legs_[index]->error == ENOTSUP)
            return give_up(index, ENOTSUP);
    }
    in_sync &= connected;
    if (in_sync == 0)
        return fail(ECONNRESET, "%s: no target that has everything is left", name_.c_str());
    if (begin_epoch(in_sync) != 0)
        return -1;
    make_missing(w);
    legs others = 0, levelled = 0;
    // Compared with a copy that was not closed, no other one is equal.
    const legs source = in_sync_ & -in_sync_;
    for (unsigned i = 0; i < count_; ++i)
        if (legs_[i]->is_connected() && ((equal & source) == 0 || (equal & in_sync_ & 1U << i) == 0))
            others |= 1U << i;
    if (level(others & ~source, &levelled) != 0)
        return -1;
    const legs joining = levelled & ~in_sync_;
    if (joining != 0 && commit(in_sync_, joining, false) != 0)
        return fail(ECONNRESET, "%s: the targets that had everything were lost", name_.c_str());
    for (unsigned i = 0; i < count_; ++i) {
        leg &l = *legs_[i];
        if ((in_sync_ >> i & 1) != 0) {
            if (l.recorded_lost)
                record_made_again(l.name());
            l.recorded_lost = false;
        } else {
            l.region().lost().declare(l.error != 0 ? l.error : ESTALE);
            tell_lost(1U << i);
        }
    }
    return 0;
}

// What the state file calls lost is out of date. With several targets it can be brought level.
int rpmem_pool::refuse_lost()
{
    for (unsigned i = 0; i < count_; ++i) {
        leg &l = *legs_[i];
        replica::error_text fault;
        const int error = recorded_fault(l.name(), &fault);
        if (error != 0 && (count_ == 1 || error != ESTALE))
            return fail(error, "%s: %s", l.name(), fault.c_str());
        l.recorded_lost = error == ESTALE;
    }
    return 0;
}

// The newest record of any leg.
int rpmem_pool::find_record()
{
    for (unsigned i = 0; i < count_; ++i) {
        const replica::mirror_state &known = legs_[i]->known();
        if (known.committed.epoch == 0)
            continue;
        if (record_.epoch != 0 && known.set != set_)
            return fail(EINVAL, "%s: it belongs to another set of targets than those before it: remove one of them",
                    legs_[i]->name());
        set_ = known.set;
        if (is_newer(known.committed, record_))
            record_ = known.committed;
    }
    number_legs();
    return 0;
}

// Who has a record keeps the number that it has there, unless it is a copy of the record of another one.
void rpmem_pool::number_legs()
{
    std::uint32_t taken = 0;
    legs numbered = 0;
    for (unsigned i = 0; i < count_; ++i) {
        const replica::mirror_state &known = legs_[i]->known();
        if (known.committed.epoch == 0 || (taken >> known.copy & 1) != 0)
            continue;
        legs_[i]->number = known.copy;
        taken |= 1U << known.copy;
        numbered |= 1U << i;
    }
    taken |= record_.in_sync;
    for (unsigned i = 0; i < count_; ++i) {
        if ((numbered >> i & 1) != 0)
            continue;
        legs_[i]->number = static_cast<std::uint32_t>(__builtin_ctz(~taken));
        taken |= 1U << legs_[i]->number;
    }
}

// Those that have everything, at least one. A target that does not answer may know of a newer record, unless all that
// have everything in the newest one have answered.
int rpmem_pool::find_in_sync(legs *found) const
{
    const bool any = record_.epoch != 0;
    std::uint32_t answered = 0;
    for (unsigned i = 0; i < count_; ++i)
        if (legs_[i]->known().committed.epoch != 0)
            answered |= 1U << legs_[i]->number;
    for (unsigned i = 0; i < count_; ++i) {
        const leg &l = *legs_[i];
        if (!l.learned && (!any || (record_.in_sync & ~answered) != 0))
            return fail(l.error,
                    "%s: %s; it may have what the others lack: bring it back, or take it out of the list of targets",
                    l.name(), l.why.c_str());
        const bool has_all = !any || (l.known().committed.epoch != 0 && (record_.in_sync >> l.number & 1) != 0);
        if (l.is_open() && has_all && !l.recorded_lost)
            *found |= 1U << i;
    }
    for (unsigned i = 0; i < count_ && *found == 0; ++i)
        if (legs_[i]->error != 0)
            return fail(legs_[i]->error, "%s: %s", legs_[i]->name(), legs_[i]->why.c_str());
    if (*found == 0)
        return fail(ESTALE, "%s: no target has everything: remove them and make them again, as pmempool sync does",
                name_.c_str());
    return 0;
}

// Nothing is written over by a copy of something else.
int rpmem_pool::check_pools(legs in_sync) const
{
    const leg &first = *legs_[static_cast<unsigned>(__builtin_ctz(in_sync))];
    for (unsigned i = 0; i < count_; ++i) {
        const leg &l = *legs_[i];
        if (l.is_open() && (l.has_header() != first.has_header() ||
                                   std::memcmp(l.attributes().poolset_uuid, first.attributes().poolset_uuid,
                                           sizeof(first.attributes().poolset_uuid)) != 0))
            return fail(EINVAL, "%s: there is another pool than on the other targets: remove it, or name another set",
                    l.name());
    }
    return 0;
}

// What comes now is newer than all records before.
int rpmem_pool::begin_epoch(legs in_sync)
{
    if (record_.epoch == 0 && getrandom(set_.data(), set_.size(), 0) != static_cast<ssize_t>(set_.size()))
        return fail(errno, "cannot get random bytes for a record: %s", std::strerror(errno));
    record_.version = 0;
    ++record_.epoch;
    if (commit(in_sync, 0, false) == 0)
        return 0;
    const replica::error_text why(last_failure());
    return fail(errno, "%s: no target keeps the record of those that have everything: %s", name_.c_str(), why.c_str());
}

// A target that has lost its parts, or never had any.
void rpmem_pool::make_missing(const wanted &w)
{
    const leg &like = *legs_[static_cast<unsigned>(__builtin_ctz(in_sync_))];
    legs missing = 0;
    for (unsigned i = 0; i < count_; ++i) {
        leg &l = *legs_[i];
        if (l.is_open() || !l.learned || l.error != ENOENT)
            continue;
        l.error = 0;
        missing |= 1U << i;
    }
    const auto make = [&](leg &l, const replica::deadline &until) {
        return l.open(terms_of(w, true, like.attributes()), until);
    };
    connect(on_each_target(missing, settings_.session_timeout_ms(), make, [](legs) { return false; }), w);
}

// Has each of the others what the first leg in sync has. Who is lost meanwhile leaves, or does not come.
int rpmem_pool::level(legs others, legs *levelled)
{
    auto *const memory = static_cast<std::byte *>(others == 0 ? nullptr : std::malloc(2 * step_size));
    if (others != 0 && memory == nullptr)
        return fail(ENOMEM, "out of memory");
    int result = 0;
    for (legs left = others; left != 0 && result == 0;) {
        const auto source = static_cast<unsigned>(__builtin_ctz(in_sync_));
        const auto index = static_cast<unsigned>(__builtin_ctz(left));
        const leg *const lost =
                index == source ? nullptr : bring_level(*legs_[source], *legs_[index], pool_size_, memory);
        left &= ~(1U << index);
        if (lost == nullptr) {
            *levelled |= 1U << index;
        } else if (lost == legs_[source].get()) {
            // The next one is the source, and all begin again.
            result = evict(1U << source);
            left = others & ~(1U << source);
            *levelled = 0;
        } else if ((in_sync_ >> index & 1) != 0) {
            result = evict(1U << index);
        }
    }
    std::free(memory);
    return result;
}
