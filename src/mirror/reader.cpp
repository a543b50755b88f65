// SPDX-License-Identifier: BSD-3-Clause
#include "reader.hpp"

#include <cstring>
#include <sys/mman.h>

#include "attach.hpp"
#include "membership.hpp"
#include "step.hpp"

using namespace mirror;

namespace
{

constexpr std::uint64_t max_batch = replica::max_hashes * replica::segment_size;
// Pauses between two requests for an image that is not complete.
constexpr long min_pause_ns = 1'000'000, max_pause_ns = 32'000'000;

bool is_synced(const replica::mirror_record &r, unsigned copy)
{
    return (r.in_sync >> copy & 1) != 0;
}

} // namespace

image_memory::~image_memory()
{
    if (address_ != nullptr)
        munmap(address_, length_);
}

void image_memory::allocate(std::uint64_t length)
{
    if (length_ == length)
        return;
    void *const memory = mmap(nullptr, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        throw system_failure("cannot allocate an image");
    if (address_ != nullptr)
        munmap(address_, length_);
    address_ = static_cast<std::byte *>(memory);
    length_ = length;
}

void image_memory::protect(bool read_only) const
{
    if (mprotect(address_, length_, read_only ? PROT_READ : PROT_READ | PROT_WRITE) != 0)
        throw system_failure("cannot protect an image");
}

rpma_mirror_reader::rpma_mirror_reader(const settings &of) : settings_(of)
{
    settings_.check_reader();
    key_ = read_key(settings_.key_file);
    image_.size = sizeof(image_);
}

std::uint32_t rpma_mirror_reader::responded() const
{
    std::uint32_t bits = 0;
    for (const auto &c : copies_)
        bits |= c && c->responded ? c->bit() : 0;
    return bits;
}

// Returns whether no newer record can exist. A writer that continues alone has its record on no target.
bool rpma_mirror_reader::is_newest_proven() const
{
    return newest_.epoch != 0 && (replica::required_targets(newest_) & ~responded()) == 0 &&
           (newest_.closed || newest_.policy == replica::mirror_policy::safety);
}

void rpma_mirror_reader::query(
        std::uint32_t copies, const deadline &until, const std::function<void(remote_copy &, const deadline &)> &f)
{
    query_copies(copies_, copies, until, newest_, f, [&](std::uint32_t responded) {
        return group::has_required(newest_, replica::required_targets(newest_), ~0U, responded);
    });
}

void rpma_mirror_reader::connect(const deadline &until)
{
    for (const target_settings &t : settings_.targets)
        copies_[t.copy] = std::make_unique<remote_copy>(t);
    if (set_ == replica::set_uuid{})
        set_ = read_set(settings_);
    query(settings_.target_copies(), until, [&](remote_copy &c, const deadline &within) {
        c.control = std::make_unique<channel>(c.where, key_, within);
        c.last_state = replica::from_wire(c.control->call(c.make_state_request({}), within).state());
        c.check_identity(c.last_state, set_);
    });
    if (responded() != 0)
        set_ = common_set(copies_, responded());
}

rpma_mirror_reader::taken_image rpma_mirror_reader::wait_for_image(
        remote_copy &c, bool any_time, const deadline &until) const
{
    replica::request r = c.make_request(set_);
    r.mutable_read()->set_any_time(any_time);
    std::int64_t after_ms = replica::boot_time_ms();
    for (timespec pause{0, min_pause_ns};; pause.tv_nsec = std::min(2 * pause.tv_nsec, max_pause_ns)) {
        const std::int64_t requested_ms = replica::boot_time_ms();
        // An image of any time is copied before the target responds, which takes long. Other responses are immediate,
        // so a late request gets only the timeout of an operation.
        const deadline within = any_time ? until : deadline(settings_.operation_ms);
        const replica::response response = c.control->call(r, within);
        if (response.image().is_complete())
            return {replica::from_wire(response.image().record()), response.image().is_consistent(), after_ms};
        after_ms = requested_ms;
        if (until.left_ms() >= 0 && until.left_ms() * 1'000'000L <= pause.tv_nsec)
            throw failure(RPMA_MIRROR_E_AGAIN,
                    "target " + c.where.name() + ": no consistency point was set in time (" +
                            (image_.address == nullptr ? "open the set and set one, or close it"
                                                       : "the image that was read before is still valid") +
                            ")");
        nanosleep(&pause, nullptr);
    }
}

void rpma_mirror_reader::fetch_batch(
        remote_copy &c, replica::region_lane &lane, replica::range extent, const deadline &until)
{
    std::byte *const to = memory_[1 - current_].address();
    const std::byte *const from = memory_[current_].address();
    replica::request r = c.make_request(set_);
    r.mutable_hash_image()->set_offset(extent.offset);
    r.mutable_hash_image()->set_length(extent.length);
    const channel::pending_call pending = c.control->start_call(r, until);
    // The previous image is shorter if the set has grown.
    const bool is_mapped = extent.offset + extent.length <= memory_[current_].length();
    const std::string local = is_mapped ? replica::hash_segments({from + extent.offset, extent.length}) : std::string();
    const std::string remote = c.control->finish_call(pending, until).hashes();
    const std::size_t count = (extent.length + replica::segment_size - 1) / replica::segment_size;
    if (remote.size() != count * sizeof(replica::segment_hash))
        throw failure(RPMA_MIRROR_E_REJECTED, "target " + c.where.name() + ": wrong number of segment hashes");
    const auto segment_differs = [&](std::size_t i) {
        constexpr std::size_t size = sizeof(replica::segment_hash);
        return !is_mapped || local.compare(i * size, size, remote, i * size, size) != 0;
    };
    std::size_t i = 0;
    while (i < count) {
        const bool differs = segment_differs(i);
        const std::size_t first = i;
        while (i < count && segment_differs(i) == differs)
            ++i;
        const std::uint64_t begin = first * replica::segment_size;
        const replica::range run{
                extent.offset + begin, std::min<std::uint64_t>(i * replica::segment_size, extent.length) - begin};
        if (!differs) {
            std::memcpy(to + run.offset, from + run.offset, run.length);
            continue;
        }
        if (const int error = lane.fetch(run); error != 0)
            lost(c, error);
        image_.fetched_bytes += run.length;
    }
    image_.compared_bytes += extent.length;
}

void rpma_mirror_reader::fetch(remote_copy &c, const deadline &until)
{
    replica::request r = c.make_request(set_);
    r.mutable_attach_reader()->set_devices(devices_of(settings_.device));
    const replica::wire::region target = c.control->call(r, until).region();
    // The set can have grown since the request for the image. Before the first image, the last one is empty.
    length_ = target.size();
    if (image_.address == nullptr)
        memory_[current_].allocate(length_);
    memory_[1 - current_].allocate(length_);
    memory_[1 - current_].protect(false);
    replica::region::settings params;
    params.address = memory_[1 - current_].address();
    params.size = length_;
    params.fetches = true;
    params.depth = settings_.depth;
    params.devices = r.attach_reader().devices();
    params.timeout_ms = settings_.operation_ms;
    c.region = connect_lanes(c.where, target, params, until);
    for (std::uint64_t at = 0; at < length_; at += max_batch) {
        if (until.passed())
            throw failure(RPMA_MIRROR_E_TIMEOUT, "target " + c.where.name() + ": image was not fetched in time");
        fetch_batch(c, c.lane(), {at, std::min(max_batch, length_ - at)}, until);
    }
}

// Sets the time before which each acknowledged flush is in the image. `is_proven`: the copy was in sync at the start of
// the call. If the record of the image is still the newest, its copy was in sync when the image was taken.
void rpma_mirror_reader::set_age(const taken_image &taken, std::int64_t started_ms, bool is_proven)
{
    const bool is_current = taken.is_consistent && is_newest_proven() && newest_ == taken.record;
    as_of_ms_ = is_current ? taken.after_ms : started_ms;
    image_.age_is_proven = is_current || is_proven;
    image_.newest_point = newest_.mark;
}

void rpma_mirror_reader::read_from(remote_copy &c, bool any_time, std::int64_t started_ms, const deadline &until)
{
    const image_memory &next = memory_[1 - current_];
    const bool is_proven = is_newest_proven();
    const taken_image taken = wait_for_image(c, any_time, until);
    query(responded(), until.share(4), [&](remote_copy &of, const deadline &within) {
        of.last_state = replica::from_wire(of.control->call(of.make_state_request(set_), within).state());
    });
    fetch(c, until);
    c.region.reset();
    next.protect(true);
    current_ = 1 - current_;
    const replica::mirror_record &record = taken.record;
    image_.address = next.address();
    image_.length = length_;
    image_.copy = c.where.copy;
    image_.consistency = !taken.is_consistent ? RPMA_MIRROR_IMAGE_ANY_TIME
                         : record.closed      ? RPMA_MIRROR_IMAGE_CLOSED
                                              : RPMA_MIRROR_IMAGE_POINT;
    image_.epoch = record.epoch;
    image_.version = record.version;
    image_.consistency_point = record.mark;
    ++image_.refreshes;
    set_age(taken, started_ms, is_proven);
}

void rpma_mirror_reader::refresh(bool any_time, int timeout_ms)
{
    const deadline until(timeout_ms < 0 ? settings_.open_ms : std::max(timeout_ms, 1));
    const std::int64_t started_ms = replica::boot_time_ms();
    newest_ = {};
    // Disconnects the targets at the end, so that a reader uses their resources only during the call.
    struct disconnection {
        remote_copies &copies;
        ~disconnection()
        {
            for (auto &c : copies)
                c.reset();
        }
    } const at_end{copies_};
    connect(until.share(2));
    std::optional<failure> last_error;
    std::uint32_t candidates = 0;
    each_copy(responded(), [&](unsigned copy) {
        const bool is_newest = copies_[copy]->last_state.committed == newest_ && is_synced(newest_, copy);
        candidates |= is_newest && newest_.epoch != 0 ? 1U << copy : 0;
    });
    for (; candidates != 0; candidates &= candidates - 1) {
        remote_copy &c = *copies_[static_cast<unsigned>(std::countr_zero(candidates))];
        try {
            return read_from(c, any_time, started_ms, until);
        } catch (const failure &error) {
            if (error.code() == RPMA_MIRROR_E_AGAIN || until.passed())
                throw;
            last_error = error;
            c.region.reset(); // no late data arrives in the memory
            c.control.reset();
            c.responded = false;
        }
    }
    for (const auto &c : copies_) {
        if (last_error || !c || !c->error)
            continue;
        last_error = c->error;
        // Targets that respond without the set, or reject this machine, are not down.
        if (last_error->code() == RPMA_MIRROR_E_CONNECTION || last_error->code() == RPMA_MIRROR_E_TIMEOUT)
            last_error = failure(RPMA_MIRROR_E_DOWN,
                    std::string("no copy that is in sync responds (start a target): ") + c->error->what());
    }
    throw last_error ? *last_error : failure(RPMA_MIRROR_E_DOWN, "no copy that is in sync responds (start a target)");
}

void rpma_mirror_reader::describe(rpma_mirror_image &to) const
{
    to = image_;
    to.age_ms = image_.address == nullptr ? 0 : static_cast<std::uint64_t>(replica::boot_time_ms() - as_of_ms_);
}
