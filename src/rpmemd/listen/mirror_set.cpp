// SPDX-License-Identifier: BSD-3-Clause
#include "listen/mirror_set.hpp"

#include "config/log.hpp"

namespace rpmemd
{

namespace
{

std::string to_string(const replica::mirror_promise &p)
{
    return "epoch " + std::to_string(p.epoch);
}

} // namespace

mirror_set::mirror_set(const config &settings, const std::string &address, const std::string &name)
    : settings_(settings), address_(address), name_(name), copy_(settings, name)
{
}

void mirror_set::open()
{
    if (copy_.is_open())
        return;
    if (!copy_.open())
        throw failure(ENOENT, "mirrored set '" + name_ + "' not found at the target (create it first)");
    publish();
}

void mirror_set::check_set(const set_claim &claim) const
{
    if (claim.set != copy_.state().set)
        throw failure(EINVAL, "'" + name_ + "' at the target is a copy of another set");
}

void mirror_set::check_promise(const set_claim &claim) const
{
    const replica::mirror_promise &promised = copy_.state().promised;
    if (claim.promise.epoch == 0 || claim.promise != promised)
        throw failure(ESTALE,
                to_string(claim.promise) + " rejected: " + to_string(promised) + " is promised (writer fenced)");
}

void mirror_set::store(const replica::mirror_state &next)
{
    copy_.store(next);
    publish();
}

void mirror_set::publish()
{
    metrics_.publish(copy_.state(), lanes_.has_value());
}

replica::mirror_state mirror_set::create(const replica::mirror_state &first)
{
    const auto guard = lock_for_request(lock_);
    if (copy_.is_open() || copy_.open())
        throw failure(EEXIST, "mirrored set '" + name_ + "' already exists at the target (remove " +
                                      copy_.state_path() + " if it is unused)");
    if (first.set == replica::set_uuid{})
        throw failure(EINVAL, "uuid of the set: must not be zero");
    copy_.create(first);
    publish();
    return first;
}

replica::mirror_state mirror_set::status()
{
    const auto guard = lock_for_request(lock_);
    open();
    return copy_.state();
}

replica::mirror_state mirror_set::prepare(const set_claim &claim)
{
    const auto guard = lock_for_request(lock_);
    open();
    check_set(claim);
    replica::mirror_state next = copy_.state();
    if (!may_promise(next, claim.promise))
        throw failure(ESTALE,
                to_string(claim.promise) + " rejected: " + to_string(next.promised) + " is promised (writer fenced)");
    const bool higher = claim.promise.epoch > next.promised.epoch;
    next.promised = claim.promise;
    // The cursor of another writer, or of a daemon before this one, is invalid: the parts may have been replaced.
    if (higher || !copy_.are_parts_known())
        next.cursor = 0;
    // Marks a copy that may have changed as not in sync in its own state: it is then compared in full and is not a
    // source. After a restart of the daemon within the epoch, no stamp shows whether the parts were replaced.
    const auto local_bit = static_cast<std::uint16_t>(1U << next.copy);
    const bool restarted = !copy_.are_parts_known() && next.committed.epoch == next.promised.epoch;
    const bool complete = (next.committed.in_sync & local_bit) != 0 || next.resynced;
    if (complete && (restarted || (higher && copy_.has_changed(stored_copy::user::writer)))) {
        next.committed.in_sync = static_cast<std::uint16_t>(next.committed.in_sync & ~local_bit);
        next.resynced = false;
        log(log_level::warn, "set '" + name_ + "': its parts may have changed while no writer used them");
    }
    if (next != copy_.state())
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
    const auto guard = lock_for_request(lock_);
    open();
    check_set(claim);
    replica::mirror_state next = copy_.state();
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
    const auto guard = lock_for_request(lock_);
    open();
    check_set(claim);
    check_promise(claim);
    const replica::mirror_state &stored = copy_.state();
    if (request.lanes == 0)
        throw failure(EINVAL, "attach rejected: at least one lane is required");
    // A writer whose set grows attaches again without a further record.
    if (!lanes_ || client_ != client)
        point_.reset();
    revoke();
    copy_.open_parts(stored_copy::user::writer);
    ++attachments_;
    request.pool_size = stored.length;
    lanes_.emplace(settings_, copy_.parts(), request, lane_params{address_, claim.promise.epoch, &metrics_, {}});
    lanes_->describe(to);
    copy_.parts().memory().populate();
    to.set_size(stored.length);
    client_ = client;
    publish();
}

std::string mirror_set::hash(const set_claim &claim, replica::range range)
{
    const auto guard = lock_for_request(lock_);
    open();
    check_set(claim);
    check_promise(claim);
    if (!lanes_)
        throw failure(EINVAL, "hash request rejected: writer not attached");
    if (!replica::range_fits(range, 0, copy_.state().length))
        throw failure(EINVAL, "hash request rejected: range outside the set");
    return hash_parts(name_, {copy_.parts().memory().address() + range.offset, range.length});
}

replica::mirror_state mirror_set::set_cursor(const set_claim &claim, std::uint64_t cursor)
{
    const auto guard = lock_for_request(lock_);
    open();
    check_set(claim);
    check_promise(claim);
    replica::mirror_state next = copy_.state();
    next.cursor = cursor;
    next.resynced = copy_.are_parts_known() && next.cursor == next.length;
    store(next);
    return next;
}

// Repeating the request is safe. Parts that are longer than the copy are harmless.
replica::mirror_state mirror_set::resize(const set_claim &claim, std::uint64_t length, bool reserve)
{
    auto guard = lock_for_request(lock_);
    open();
    check_set(claim);
    check_promise(claim);
    if (length < min_pool_size || length % page_size != 0)
        throw failure(EINVAL, "length of the copy: must be at least 8 KiB and a multiple of 4 KiB");
    if (!copy_.wait_for_extension(guard))
        throw failure(EBUSY, "'" + name_ + "': another request extends its parts (try again later)");
    check_promise(claim);
    const std::uint64_t current = copy_.state().length;
    if (length == current || (reserve && length < current))
        return copy_.state();
    copy_.open_parts(stored_copy::user::writer);
    if (length > current) {
        copy_.extend(length, guard);
        // Another writer may have received the promise.
        check_promise(claim);
    }
    if (!reserve) {
        copy_.set_length(length);
        publish();
        log(log_level::notice, "set '" + name_ + "' has " + std::to_string(length) + " bytes");
    }
    return copy_.state();
}

void mirror_set::detach(std::uint64_t client)
{
    // Destroyed without the lock, because a device can wait for a stopped reader.
    std::unique_ptr<set_reader> ended;
    const std::lock_guard guard(lock_);
    if (const auto found = readers_.find(client); found != readers_.end()) {
        ended = std::move(found->second);
        readers_.erase(found);
        metrics_.readers = readers_.size();
        if (readers_.empty())
            copy_.release_parts();
    }
    if (!lanes_ || client_ != client)
        return;
    metrics_.lost_writers += copy_.state().committed.closed ? 0U : 1U;
    revoke();
}

} // namespace rpmemd
