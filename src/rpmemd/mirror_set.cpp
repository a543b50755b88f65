// SPDX-License-Identifier: BSD-3-Clause
#include "mirror_set.hpp"

#include "log.hpp"
#include "segments.hpp"
#include "set_file.hpp"

namespace rpmemd
{

namespace
{

using locked = std::lock_guard<std::mutex>;

std::string to_string(const replica::mirror_promise &p)
{
    return "epoch " + std::to_string(p.epoch);
}

} // namespace

mirror_set::mirror_set(const config &settings, const std::string &address, const std::string &name)
    : settings_(settings), address_(address), name_(name), state_path_(settings.poolset_dir + "/" + name + ".mirror")
{
    check_set_name(name);
}

void mirror_set::open()
{
    if (file_)
        return;
    // Throws failure if the name leads out of the directory.
    (void)read_set_file(settings_.poolset_dir, name_);
    replica::mirror_file found;
    switch (const int error = found.open(state_path_.c_str())) {
    case 0:
        file_.emplace(std::move(found));
        return publish();
    case ENOENT:
        throw failure(error, "mirrored set '" + name_ + "' not found at the target (create it first)");
    case EBUSY:
        throw failure(error, state_path_ + " is in use by another rpmemd");
    case EBADMSG:
        throw failure(EIO, state_path_ + " is damaged (remove it, and add this target to the set again)");
    default:
        throw system_failure("cannot open " + state_path_, error);
    }
}

void mirror_set::check_set(const set_claim &claim) const
{
    if (claim.set != file_->state().set)
        throw failure(EINVAL, "'" + name_ + "' at the target is a copy of another set");
}

void mirror_set::check_promise(const set_claim &claim) const
{
    const replica::mirror_promise &promised = file_->state().promised;
    if (claim.promise.epoch == 0 || claim.promise != promised)
        throw failure(ESTALE,
                to_string(claim.promise) + " rejected: " + to_string(promised) + " is promised (writer fenced)");
}

void mirror_set::store(const replica::mirror_state &next)
{
    store(next, next_stamp(next));
}

void mirror_set::store(const replica::mirror_state &next, const replica::copy_stamp &stamp)
{
    if (const int error = file_->store(next, stamp); error != 0)
        throw system_failure("cannot write " + state_path_ + " (correct this, and restart rpmemd)", error);
    publish();
}

void mirror_set::publish()
{
    metrics_.publish(file_->state(), lanes_.has_value());
}

void mirror_set::open_pool(user by)
{
    if (!pool_)
        pool_.emplace(pool::open(settings_, name_, file_->state().length));
    parts_known_ = parts_known_ || by == user::writer;
}

std::span<const std::byte> mirror_set::content() const
{
    return {pool_->memory().address(), file_->state().length};
}

// Returns the stamp to store with `next`, which changes only with the record and with the end of a resync. A clean
// record means that no writer uses the parts.
replica::copy_stamp mirror_set::next_stamp(const replica::mirror_state &next)
{
    const replica::mirror_state &stored = file_->state();
    const bool ends_resync = next.resynced && !stored.resynced;
    if (next.committed == stored.committed && !ends_resync)
        return file_->stamp();
    if (!parts_known_)
        return {};
    return present_stamp(next, next.committed.closed && !ends_resync);
}

// Returns the stamp of the parts. `is_quiet`: no writer uses them.
replica::copy_stamp mirror_set::present_stamp(const replica::mirror_state &of, bool is_quiet)
{
    if (is_quiet)
        pool_->stop_populating();
    return replica::present_stamp(pool_->files(), {pool_->memory().address(), of.length}, of.committed.epoch, is_quiet);
}

// Returns whether the parts were replaced or changed since the record was stored. A writer that crashed has changed
// content and times. If the parts cannot be opened, they cannot be attached either.
bool mirror_set::has_changed(user by)
{
    const replica::mirror_record &record = file_->state().committed;
    const replica::copy_stamp &stored = file_->stamp();
    if (stored.size == 0)
        return false;
    try {
        open_pool(by);
    } catch (const failure &error) {
        log(log_level::warn, "parts of '" + name_ + "': cannot compare with the record: " + error.what());
        return false;
    }
    // Stamps of copies that a writer has used since the clean record have no sample.
    if (record.closed && stored.sample != replica::siphash_result{})
        return match(stored, replica::stamp_content(pool_->files(), content(), record.epoch)) ==
               replica::stamp_match::changed;
    return stored != replica::stamp_files(pool_->files(), file_->state().length);
}

replica::mirror_state mirror_set::create(const replica::mirror_state &first)
{
    const locked guard(lock_);
    try {
        open();
    } catch (const failure &error) {
        if (error.os_errno() != ENOENT)
            throw;
    }
    if (file_)
        throw failure(EEXIST, "mirrored set '" + name_ + "' already exists at the target (remove " + state_path_ +
                                      " if it is unused)");
    if (first.set == replica::set_uuid{})
        throw failure(EINVAL, "uuid of the set: must not be zero");
    pool created = pool::create(settings_, name_, first.length, {});
    replica::mirror_file file;
    if (const int error = file.create(state_path_.c_str(), first); error != 0) {
        created.rollback_create();
        throw system_failure("cannot create " + state_path_, error);
    }
    file_.emplace(std::move(file));
    pool_.emplace(std::move(created));
    parts_known_ = true;
    publish();
    return first;
}

replica::mirror_state mirror_set::status()
{
    const locked guard(lock_);
    open();
    return file_->state();
}

replica::mirror_state mirror_set::prepare(const set_claim &claim)
{
    const locked guard(lock_);
    open();
    check_set(claim);
    replica::mirror_state next = file_->state();
    if (!may_promise(next, claim.promise))
        throw failure(ESTALE,
                to_string(claim.promise) + " rejected: " + to_string(next.promised) + " is promised (writer fenced)");
    const bool higher = claim.promise.epoch > next.promised.epoch;
    next.promised = claim.promise;
    // The cursor of another writer's resync is not valid, nor that of a daemon that restarted: the parts below the
    // cursor may have been replaced or restored since.
    if (higher || !parts_known_)
        next.cursor = 0;
    // Marks a copy that may have changed as not in sync in its own state, so it is compared in full and is not a
    // source. If the daemon restarted within the epoch, no stamp shows whether the parts were replaced or restored.
    const auto local_bit = static_cast<std::uint16_t>(1U << next.copy);
    const bool restarted = !parts_known_ && next.committed.epoch == next.promised.epoch;
    const bool complete = (next.committed.in_sync & local_bit) != 0 || next.resynced;
    if (complete && (restarted || (higher && has_changed()))) {
        next.committed.in_sync = static_cast<std::uint16_t>(next.committed.in_sync & ~local_bit);
        next.resynced = false;
        log(log_level::warn, "set '" + name_ + "': its parts may have changed while no writer used them");
    }
    if (next != file_->state())
        store(next);
    metrics_.fenced_writers += higher && lanes_ ? 1U : 0U;
    if (higher || revoke_failed_)
        revoke();
    log(log_level::notice, "set '" + name_ + "' promised to " + to_string(claim.promise));
    return next;
}

void mirror_set::revoke()
{
    if (!lanes_ && !revoke_failed_)
        return;
    if (revoke_failed_)
        throw failure(EIO, "'" + name_ + "': cannot revoke the lanes of a lower epoch (restart rpmemd)");
    revoke_failed_ = true;
    lanes_->revoke();
    lanes_.reset();
    revoke_failed_ = false;
    publish();
}

replica::mirror_state mirror_set::commit(const set_claim &claim, const replica::mirror_record &record)
{
    const locked guard(lock_);
    open();
    check_set(claim);
    replica::mirror_state next = file_->state();
    if (!may_commit(next, record))
        throw failure(ESTALE, "record rejected: " + to_string(next.promised) +
                                      " is promised, or the committed record is newer (writer fenced)");
    if (next.committed == record)
        return next;
    next.committed = record;
    next.resynced = false;
    store(next);
    if (point_ && *point_ != next.committed.mark)
        copy_point();
    point_ = next.committed.mark;
    return next;
}

void mirror_set::attach(const set_claim &claim, lane_request request, std::uint64_t client, replica::wire::region &to)
{
    const locked guard(lock_);
    open();
    check_set(claim);
    check_promise(claim);
    const replica::mirror_state &stored = file_->state();
    if (request.lanes == 0)
        throw failure(EINVAL, "attach rejected: at least one lane is required");
    revoke();
    open_pool(user::writer);
    ++attachments_;
    point_.reset();
    request.pool_size = stored.length;
    lanes_.emplace(settings_, *pool_, request, lane_params{address_, claim.promise.epoch, &metrics_, {}});
    lanes_->describe(to);
    pool_->memory().populate();
    to.set_size(stored.length);
    client_ = client;
    publish();
}

std::string mirror_set::hash(const set_claim &claim, replica::range range)
{
    const locked guard(lock_);
    open();
    check_set(claim);
    check_promise(claim);
    if (!lanes_)
        throw failure(EINVAL, "hash request rejected: writer not attached");
    if (!replica::range_fits(range, 0, file_->state().length))
        throw failure(EINVAL, "hash request rejected: range outside the set");
    return replica::hash_segments({pool_->memory().address() + range.offset, range.length});
}

replica::mirror_state mirror_set::set_cursor(const set_claim &claim, std::uint64_t cursor)
{
    const locked guard(lock_);
    open();
    check_set(claim);
    check_promise(claim);
    replica::mirror_state next = file_->state();
    next.cursor = cursor;
    next.resynced = parts_known_ && next.cursor == next.length;
    store(next);
    return next;
}

// Makes the parts long enough. Parts without a stamp count as unchanged.
void mirror_set::extend(std::uint64_t length)
{
    const replica::mirror_state stored = file_->state();
    const replica::copy_stamp before = file_->stamp();
    replica::extend_files(
            before.size != 0, [&](const replica::copy_stamp &stamp) { store(stored, stamp); },
            [&] { return present_stamp(stored, before.sample != replica::siphash_result{}); },
            [&] { pool_->extend(settings_, name_, stored.length, length); });
}

// Repeating the request is safe. Parts that are longer than the copy are harmless.
replica::mirror_state mirror_set::resize(const set_claim &claim, std::uint64_t length, bool reserve)
{
    const locked guard(lock_);
    open();
    check_set(claim);
    check_promise(claim);
    replica::mirror_state next = file_->state();
    if (length < smallest_pool || length % page_size != 0)
        throw failure(EINVAL, "length of the copy: must be at least 8 KiB and a multiple of 4 KiB");
    open_pool(user::writer);
    if (length > next.length)
        extend(length);
    if (reserve || length == next.length)
        return next;
    next.length = length;
    next.cursor = 0;
    next.resynced = false;
    const replica::copy_stamp &stored = file_->stamp();
    store(next, stored.size == 0 ? stored : present_stamp(next, stored.sample != replica::siphash_result{}));
    log(log_level::notice, "set '" + name_ + "' has " + std::to_string(length) + " bytes");
    return next;
}

void mirror_set::detach(std::uint64_t client)
{
    // Destroyed without the lock: a device can wait for a stopped reader.
    std::unique_ptr<set_reader> ended;
    const locked guard(lock_);
    if (const auto found = readers_.find(client); found != readers_.end()) {
        ended = std::move(found->second);
        readers_.erase(found);
        metrics_.readers = readers_.size();
        if (readers_.empty() && !parts_known_)
            pool_.reset();
    }
    if (!lanes_ || client_ != client)
        return;
    metrics_.lost_writers += file_->state().committed.closed ? 0U : 1U;
    revoke();
}

} // namespace rpmemd
