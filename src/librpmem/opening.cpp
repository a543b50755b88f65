// SPDX-License-Identifier: BSD-3-Clause
#include "opening.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <sys/random.h>
#include <vector>

#include "failure.hpp"
#include "group/batch.hpp"
#include "group/step.hpp"
#include "message/status.hpp"
#include "state_file.hpp"

using namespace rpmem;
using group::bit_of;
using group::copy_mask;
using group::each_copy;
using group::first_of;
using replica::range;

namespace
{

constexpr std::uint64_t chunk_size = 1024 * 1024; // bytes of a chunk in which differences are copied

bool differ(const replica::pool_attributes &a, const replica::pool_attributes &b)
{
    return std::memcmp(&a, &b, sizeof(a)) != 0;
}

// Copies a range from one replica to another. Returns the replica that was lost, or NULL.
remote_replica *copy_range(remote_replica &from, remote_replica &to, range r, std::vector<std::byte> &memory)
{
    for (const std::uint64_t end = r.offset + r.length; r.offset < end; r.offset += memory.size()) {
        const range chunk{r.offset, std::min<std::uint64_t>(memory.size(), end - r.offset)};
        if (from.region().lane(0).read(memory.data(), chunk) != 0)
            return &from;
        if (to.region().lane(0).write(memory.data(), chunk) != 0)
            return &to;
    }
    return nullptr;
}

// Makes the data of a batch durable: a flush of it can have been lost. Returns 0, or an errno value.
int flush_batch(remote_replica &rep, range batch)
{
    replica::region_lane &lane = rep.region().lane(0);
    const int error = lane.include(batch);
    return error != 0 ? error : lane.drain();
}

// Compares a batch by hash, and copies the segments that differ. Returns the replica that was lost, or NULL.
remote_replica *resync_batch(remote_replica &from, remote_replica &to, range batch, std::vector<std::byte> &memory)
{
    remote_replica *const both[] = {&from, &to};
    std::string hashes[2];
    const auto hash_one = [&](unsigned i, const replica::deadline &) { return both[i]->hash(batch, &hashes[i]) == 0; };
    const copy_mask hashed = group::run_concurrently(0b11, replica::deadline(0), 0, hash_one);
    if (hashed != 0b11)
        return both[first_of(~hashed)];
    const std::optional<std::uint64_t> different = group::different_segments(hashes[0], hashes[1]);
    if (!different)
        return &to;
    remote_replica *lost = nullptr;
    group::each_run(*different, batch, [&](range run) {
        lost = copy_range(from, to, run, memory);
        return lost == nullptr ? 0 : -1;
    });
    return lost == nullptr && flush_batch(to, batch) != 0 ? &to : lost;
}

// Makes a replica equal to another one, or durable if both are the same. Returns the lost replica, or NULL.
remote_replica *resync_replica(remote_replica &from, remote_replica &to, std::uint64_t size)
{
    if (differ(from.attributes(), to.attributes()) && to.set_attributes(from.attributes()) != 0)
        return &to;
    std::vector<std::byte> memory(chunk_size);
    remote_replica *lost = nullptr;
    for (std::uint64_t at = from.region().data_begin(); at < size && lost == nullptr; at += group::max_batch_size) {
        const range batch{at, std::min(group::max_batch_size, size - at)};
        lost = &from != &to ? resync_batch(from, to, batch, memory) : flush_batch(to, batch) != 0 ? &to : nullptr;
    }
    return lost;
}

} // namespace

opening::opening(replica_group &replicas, const params &requested, const target_list &targets)
    : replicas_(replicas), settings_(replicas.settings()), count_(replicas.count()), params_(requested),
      targets_(targets), pool_size_(requested.size)
{
}

int opening::run()
{
    if (guarded([&] { return params_.create ? create_all() : open_all(); }) != 0)
        return rollback();
    replicas_.set_opened();
    return 0;
}

// Preserves the error of the opening if the rollback fails, too.
int opening::rollback()
{
    const int error = errno;
    const replica::error_text reason(last_failure());
    copy_mask opened = 0;
    for (unsigned i = 0; i < count_; ++i)
        if (replicas_[i].is_open())
            opened |= bit_of(i);
    const auto rollback_one = [](remote_replica &rep, const replica::deadline &) {
        rep.rollback(rep.error != 0 ? rep.error : rep.lost());
        return 0;
    };
    on_each_target(opened, settings_.session_timeout_ms(), rollback_one);
    return fail_again(error, reason.c_str());
}

int opening::fail_open(unsigned index, int error) const
{
    const remote_replica &rep = replicas_[index];
    return count_ == 1 ? fail(error, "%s", rep.reason.c_str()) : fail(error, "%s: %s", rep.name(), rep.reason.c_str());
}

int opening::create_all()
{
    const copy_mask all = bit_of(count_) - 1;
    copy_mask ready = start();
    // The first target chooses the UUIDs that the program did not specify.
    if (ready == all && (ready = open_pools(1)) == 1)
        ready |= open_pools(all & ~1U);
    if (ready == all)
        ready = connect(all);
    if (ready != all) {
        const auto first = first_of(all & ~ready);
        return fail_open(first, replicas_[first].error);
    }
    if (count_ == 1)
        return replicas_.commit(all, 0, false);
    promise_ = {1, group::new_writer_id()};
    if (begin_epoch(all) != 0)
        return -1;
    const copy_mask lost = all & ~replicas_.in_sync();
    if (lost == 0)
        return 0;
    const remote_replica &rep = replicas_[first_of(lost)];
    return fail(rep.lost(), "%s: replica lost while the pool was created", rep.name());
}

int opening::open_all()
{
    if (reject_lost_replica() != 0)
        return -1;
    const copy_mask responded = start();
    each_copy(responded,
            [&](unsigned index) { pool_size_ = std::max(pool_size_, replicas_[index].last_state().length); });
    if (open_pools(responded) == 0 && count_ == 1)
        return -1;
    for (unsigned i = 0; i < count_; ++i)
        pool_size_ = std::max(pool_size_, replicas_[i].last_state().length);
    if (find_record() != 0)
        return -1;
    if (count_ == 1 && record_.epoch == 0)
        return connect(1) != 0 ? replicas_.commit(1, 0, false) : -1;
    copy_mask in_sync = 0;
    if (find_in_sync(&in_sync) != 0 || check_pools(in_sync) != 0)
        return -1;
    // Acquiring an epoch can fence another client, so the conditions are checked before and after it.
    if (acquire_epoch() != 0 || find_record() != 0 || find_in_sync(&in_sync) != 0)
        return -1;
    copy_mask equal = 0, opened = 0;
    for (unsigned i = 0; i < count_; ++i) {
        const remote_replica &rep = replicas_[i];
        if (group::is_equal(record_, rep.last_state().committed))
            equal |= bit_of(i);
        if (rep.is_open() && rep.record_fetched)
            opened |= bit_of(i);
    }
    const copy_mask connected = connect(opened);
    for (copy_mask failed = opened & ~connected; failed != 0; failed &= failed - 1) {
        const auto index = first_of(failed);
        if (replicas_[index].error == ENOTSUP)
            return fail_open(index, ENOTSUP);
    }
    in_sync &= connected;
    if (in_sync == 0)
        return fail(ECONNRESET, "%s: no target in sync is left", replicas_.name());
    if (begin_epoch(in_sync) != 0)
        return -1;
    create_missing();
    copy_mask others = 0, resynced = 0;
    // If the source was not closed cleanly, all other replicas must be compared with it. Data of the source that a
    // program finds must survive a power failure, but might not have been flushed.
    const copy_mask source = replicas_.in_sync() & -replicas_.in_sync();
    for (unsigned i = 0; i < count_; ++i)
        if (replicas_[i].is_connected() && ((equal & source) == 0 || (equal & replicas_.in_sync() & bit_of(i)) == 0))
            others |= bit_of(i);
    if (resync(others, &resynced) != 0)
        return -1;
    const copy_mask joining = resynced & ~replicas_.in_sync();
    if (joining != 0 && replicas_.commit(replicas_.in_sync(), joining, false) != 0)
        return fail(ECONNRESET, "%s: all targets in sync were lost", replicas_.name());
    for (unsigned i = 0; i < count_; ++i) {
        remote_replica &rep = replicas_[i];
        if ((replicas_.in_sync() & bit_of(i)) != 0) {
            if (rep.recorded_lost)
                record_rebuilt(rep.name());
            rep.recorded_lost = false;
        } else {
            rep.region().lost().declare(rep.error != 0 ? rep.error : ESTALE);
            replicas_.report_lost(bit_of(i));
        }
    }
    return 0;
}

// Rejects a single replica that the state file records as lost. One of several targets is resynchronized instead.
int opening::reject_lost_replica()
{
    for (unsigned i = 0; i < count_; ++i) {
        remote_replica &rep = replicas_[i];
        replica::error_text fault;
        const int error = recorded_fault(rep.name(), &fault);
        if (error != 0 && (count_ == 1 || error != ESTALE))
            return fail(error, "%s: %s", rep.name(), fault.c_str());
        rep.recorded_lost = error == ESTALE;
    }
    return 0;
}

// Selects the newest record of all replicas, and assigns the replicas their numbers in it.
int opening::find_record()
{
    record_ = {};
    std::vector<replica::mirror_state> held;
    for (unsigned i = 0; i < count_; ++i) {
        const replica::mirror_state &state = held.emplace_back(replicas_[i].last_state());
        if (state.committed.epoch == 0)
            continue;
        if (record_.epoch != 0 && state.set != set_)
            return fail(EINVAL, "%s: replica group differs from the preceding targets (remove it from the list)",
                    replicas_[i].name());
        set_ = state.set;
        if (is_newer(state.committed, record_))
            record_ = state.committed;
    }
    const std::vector<unsigned> numbers = group::assign_numbers(held, record_);
    for (unsigned i = 0; i < count_; ++i)
        replicas_[i].number = numbers[i];
    return 0;
}

// Finds the replicas in sync, at least one. Without a record, all targets are required. A record can require a replica
// that is not in the list of targets: the operator removed it, or it is one of those that did not respond.
int opening::find_in_sync(copy_mask *found) const
{
    const bool any = record_.epoch != 0;
    group::opening_facts facts;
    facts.newest = record_;
    copy_mask all = 0;
    const remote_replica *silent = nullptr;
    for (unsigned i = count_; i-- > 0;) {
        const remote_replica &rep = replicas_[i];
        const copy_mask number = bit_of(rep.number);
        all |= number;
        if (!rep.record_fetched)
            silent = &rep;
        else if (!any || rep.last_state().committed.epoch != 0)
            facts.responded |= number;
        if (!rep.is_open() || rep.recorded_lost)
            facts.changed |= number;
    }
    // Without a record, a pool that another client has open might be the only copy of its data.
    for (unsigned i = 0; i < count_ && !any; ++i)
        if (replicas_[i].record_fetched && replicas_[i].error == EBUSY)
            return fail_open(i, EBUSY);
    facts.required = (any ? record_.in_sync : all) & (silent == nullptr ? facts.responded : ~copy_mask{0});
    const group::source_choice choice = group::choose_source(facts);
    if (choice.obstacle == group::obstacle::silent && replica::is_local_shortage(silent->error))
        return fail(silent->error, "%s: cannot use a target in sync: %s", silent->name(), silent->reason.c_str());
    if (choice.obstacle == group::obstacle::silent)
        return fail(silent->error, "%s: target in sync is unreachable: %s (restore it or remove it from the list)",
                silent->name(), silent->reason.c_str());
    *found = 0;
    for (unsigned i = 0; i < count_; ++i)
        if (replicas_[i].record_fetched && (choice.candidates & bit_of(replicas_[i].number)) != 0)
            *found |= bit_of(i);
    for (unsigned i = 0; i < count_ && *found == 0; ++i)
        if (replicas_[i].error != 0)
            return fail_open(i, replicas_[i].error);
    if (*found == 0)
        return fail(ESTALE, "%s: no target is in sync (recreate the replicas, for example with pmempool sync)",
                replicas_.name());
    return 0;
}

// Fails unless all targets have the same pool, so that no other pool is overwritten.
int opening::check_pools(copy_mask in_sync) const
{
    const remote_replica &first = replicas_[first_of(in_sync)];
    for (unsigned i = 0; i < count_; ++i) {
        const remote_replica &rep = replicas_[i];
        if (rep.is_open() && (rep.has_header() != first.has_header() ||
                                     std::memcmp(rep.attributes().poolset_uuid, first.attributes().poolset_uuid,
                                             sizeof(first.attributes().poolset_uuid)) != 0))
            return fail(EINVAL, "%s: pool differs from the other targets (remove it, or use another set)", rep.name());
    }
    return 0;
}

// Acquires an epoch above each known one, and promises from the targets that have a record. Another client, which might
// only be silent, can then no longer commit a record. A target without a promise counts as unreachable.
int opening::acquire_epoch()
{
    promise_ = {record_.epoch + 1, group::new_writer_id()};
    copy_mask with_record = 0;
    for (unsigned i = 0; i < count_; ++i) {
        const replica::mirror_state &state = replicas_[i].last_state();
        promise_.epoch = std::max({promise_.epoch, state.promised.epoch + 1, state.committed.epoch + 1});
        if (replicas_[i].record_fetched && state.committed.epoch != 0)
            with_record |= bit_of(i);
    }
    const copy_mask promised = on_each_target(
            with_record, settings_.session_timeout_ms(),
            [&](remote_replica &rep, const replica::deadline &until) { return rep.prepare(promise_, until); },
            [&](copy_mask responded) { return has_required(responded); });
    copy_mask fenced = 0;
    each_copy(with_record & ~promised, [&](unsigned index) {
        remote_replica &rep = replicas_[index];
        rep.record_fetched = false;
        fenced |= rep.error == ESTALE ? bit_of(index) : 0;
    });
    return fenced == 0 ? 0 : fail_open(first_of(fenced), ESTALE);
}

// Commits a record with a new epoch, which is newer than all previous records.
int opening::begin_epoch(copy_mask in_sync)
{
    if (record_.epoch == 0 && getrandom(set_.data(), set_.size(), 0) != static_cast<ssize_t>(set_.size()))
        return fail(errno, "cannot get random bytes for a record: %s", std::strerror(errno));
    if (replicas_.begin(set_, group::first_record(promise_, record_, 0), pool_size_, in_sync) == 0)
        return 0;
    const remote_replica &rep = replicas_[first_of(in_sync)];
    return fail(rep.lost(), "%s: cannot store the membership record: %s", replicas_.name(), rep.reason.c_str());
}

void opening::create_missing()
{
    const remote_replica &like = replicas_[first_of(replicas_.in_sync())];
    copy_mask missing = 0;
    for (unsigned i = 0; i < count_; ++i) {
        remote_replica &rep = replicas_[i];
        if (rep.is_open() || !rep.record_fetched || rep.error != ENOENT)
            continue;
        rep.error = 0;
        missing |= bit_of(i);
    }
    const auto make = [&](remote_replica &rep, const replica::deadline &until) {
        return rep.open(session_params_of(true, like.attributes()), until);
    };
    connect(on_each_target(missing, settings_.session_timeout_ms(), make));
}

// Resynchronizes the other replicas from the first one in sync. Evicts lost ones in sync, and skips other lost ones.
int opening::resync(copy_mask others, copy_mask *resynced)
{
    int result = 0;
    for (copy_mask left = others; left != 0 && result == 0;) {
        const auto source = first_of(replicas_.in_sync());
        const auto index = first_of(left);
        remote_replica *const lost = resync_replica(replicas_[source], replicas_[index], pool_size_);
        left &= ~bit_of(index);
        // A target that rejected a request is lost, too.
        if (lost != nullptr)
            lost->region().lost().declare(EPROTO);
        if (lost == nullptr) {
            *resynced |= bit_of(index);
        } else if (lost == &replicas_[source]) {
            // The source was lost: restarts the comparisons with the next source.
            result = replicas_.evict(bit_of(source));
            left = others & ~bit_of(source);
            *resynced = 0;
        } else if ((replicas_.in_sync() & bit_of(index)) != 0) {
            result = replicas_.evict(bit_of(index));
        }
    }
    return result;
}
