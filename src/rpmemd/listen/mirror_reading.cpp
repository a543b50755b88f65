// SPDX-License-Identifier: BSD-3-Clause
// Readers of a mirrored set. A reader requests an image of the next consistency point, which commit() copies while the
// writer waits, or of any time, which the reader's own session copies. Readers access only images.
#include "listen/mirror_set.hpp"

#include "region/segments.hpp"

namespace rpmemd
{

namespace
{

constexpr int max_copy_ms = 100; // time by which the copy of a consistency point may delay its writer
// A copy can also take long because the machine is busy.
constexpr unsigned max_slow_copies = 3;

} // namespace

set_reader &mirror_set::find_reader(std::uint64_t client)
{
    const auto found = readers_.find(client);
    if (found == readers_.end() || !found->second->taken)
        throw failure(EINVAL, "request of a reader rejected: image not complete");
    return *found->second;
}

set_reader &mirror_set::add_reader(std::uint64_t client)
{
    const auto found = readers_.find(client);
    if (found != readers_.end())
        return *found->second;
    const replica::mirror_state &stored = copy_.state();
    if ((stored.committed.in_sync >> stored.copy & 1) == 0)
        throw failure(EIO, "'" + name_ + "': this copy is not in sync");
    if (readers_.size() >= settings_.limits.readers)
        throw failure(EBUSY, "'" + name_ + "': limit of " + std::to_string(readers_.size()) +
                                     " readers reached (see max-readers in rpmemd.conf)");
    if (!copy_.are_parts_known() && copy_.has_changed(stored_copy::user::reader))
        throw failure(EIO, "'" + name_ + "': its parts may have changed while no writer used them");
    copy_.open_parts(stored_copy::user::reader);
    set_reader &added = *readers_.emplace(client, std::make_unique<set_reader>()).first->second;
    metrics_.readers = readers_.size();
    return added;
}

// Returns whether no writer can write to the copy, and the last one closed the set cleanly.
bool mirror_set::is_quiet() const
{
    return !lanes_ && copy_.state().committed.closed;
}

// Copies without the lock. If `needs_quiet`, the copy is valid only if no writer attached during it.
void mirror_set::copy_now(set_reader &reader, bool needs_quiet)
{
    std::uint64_t attachments = 0;
    replica::mirror_record record;
    std::span<const std::byte> from;
    {
        const auto guard = lock_for_request(lock_);
        // The length can have changed since the request.
        if (reader.taken || (needs_quiet && !is_quiet()) || reader.empty->memory().size() != copy_.content().size())
            return;
        reader.waits = false; // copy_point() must not use the same memory
        attachments = attachments_;
        record = copy_.state().committed;
        from = copy_.content();
    }
    if (const int error = reader.empty->copy(from, 0); error != 0)
        throw unreadable_parts(name_, error);
    const auto guard = lock_for_request(lock_);
    const bool was_quiet = record.closed && is_quiet() && attachments == attachments_;
    if (needs_quiet && !was_quiet) {
        reader.waits = true;
        return;
    }
    reader.empty->record = record;
    reader.empty->is_consistent = was_quiet;
    reader.taken = std::move(reader.empty);
}

// Copies a consistency point for all waiting readers, with the lock held: its data is flushed, and the program waits.
void mirror_set::copy_point()
{
    std::shared_ptr<image> taken;
    for (const auto &[client, reader] : readers_) {
        if (!reader->waits || reader->slow_copies == max_slow_copies ||
                reader->empty->memory().size() != copy_.content().size())
            continue;
        if (!taken) {
            if (const int error = reader->empty->copy(copy_.content(), max_copy_ms); error != 0) {
                reader->slow_copies += error == ETIMEDOUT;
                reader->copy_error = error == ETIMEDOUT ? 0 : error;
                return;
            }
            taken = reader->empty;
            taken->record = copy_.state().committed;
            taken->is_consistent = true;
        }
        reader->taken = taken;
        reader->waits = false;
    }
}

void mirror_set::read(const set_claim &claim, bool any_time, std::uint64_t client, replica::wire::image &to)
{
    set_reader *reader = nullptr;
    std::uint64_t length = 0;
    {
        const auto guard = lock_for_request(lock_);
        open();
        check_set(claim);
        reader = &add_reader(client);
        length = copy_.state().length;
        // The set has grown since the last request.
        if (reader->empty && !reader->taken && reader->empty->memory().size() != length) {
            reader->waits = false;
            reader->empty.reset();
        }
    }
    if (!reader->empty && !reader->taken)
        reader->empty = std::make_shared<image>(length, settings_.limits.reader_bytes);
    {
        const auto guard = lock_for_request(lock_);
        reader->waits = !reader->taken && !any_time;
    }
    copy_now(*reader, !any_time);
    const auto guard = lock_for_request(lock_);
    if (const int error = std::exchange(reader->copy_error, 0); error != 0 && !reader->taken)
        throw unreadable_parts(name_, error);
    if (!reader->taken && reader->slow_copies == max_slow_copies)
        throw failure(EFBIG, "'" + name_ + "': copies of consistency points take longer than " +
                                     std::to_string(max_copy_ms) + " ms");
    if (!reader->taken)
        return;
    to_wire(reader->taken->record, *to.mutable_record());
    to.set_is_complete(true);
    to.set_is_consistent(reader->taken->is_consistent);
}

std::string mirror_set::hash_image(replica::range range, std::uint64_t client)
{
    std::shared_ptr<const image> taken;
    {
        const auto guard = lock_for_request(lock_);
        taken = find_reader(client).taken;
    }
    if (!replica::range_fits(range, 0, taken->memory().size()))
        throw failure(EINVAL, "hash request rejected: range outside the set");
    return replica::hash_segments(taken->memory().subspan(range.offset, range.length));
}

void mirror_set::attach_reader(std::uint32_t devices, std::uint64_t client, replica::wire::region &to)
{
    set_reader *reader = nullptr;
    {
        const auto guard = lock_for_request(lock_);
        reader = &find_reader(client);
    }
    if (reader->lanes)
        throw failure(EINVAL, "request of a reader rejected: already attached");
    const lane_request request{reader->taken->memory().size(), 1, devices};
    // The image and the lanes are created by the reader's session, so they do not delay a writer.
    reader->lanes.emplace(
            settings_, copy_.parts(), request, lane_params{address_, 0, nullptr, reader->taken->memory()});
    reader->lanes->describe(to);
    to.set_size(request.pool_size);
}

} // namespace rpmemd
