// SPDX-License-Identifier: BSD-3-Clause
// C functions of a set: check the arguments and call the implementation.
#include "set.hpp"

#include <algorithm>
#include <cstring>

#include "creation.hpp"
#include "failure.hpp"
#include "reader.hpp"

using namespace mirror;

namespace
{

int null(const char *name) noexcept
{
    return fail(RPMA_MIRROR_E_INVAL, "%s cannot be NULL", name);
}

// Returns whether the handle is NULL, or was opened by the parent of this process, whose connections it has.
bool is_unusable(const struct rpma_mirror *mirror) noexcept
{
    if (mirror == nullptr)
        null("mirror");
    else if (mirror->is_inherited())
        fail(RPMA_MIRROR_E_INVAL, "mirror: opened by the parent of this process (open the set after fork)");
    else
        return false;
    return true;
}

bool has_unknown(unsigned flags, unsigned supported) noexcept
{
    if ((flags & ~supported) == 0)
        return false;
    fail(RPMA_MIRROR_E_INVAL, "unknown flags 0x%x", flags & ~supported);
    return true;
}

// Fills in a structure of the caller, which can have the size of an older or a newer version.
template<class T, class F>
int fill(T *to, F &&f) noexcept
{
    if (to == nullptr || to->size < sizeof(to->size))
        return fail(RPMA_MIRROR_E_INVAL, "the structure is NULL, or its member size is not set");
    return guarded([&] {
        const std::uint32_t size = to->size;
        auto created = std::make_unique<T>();
        created->size = sizeof(T);
        f(*created);
        std::memset(static_cast<void *>(to), 0, size);
        std::memcpy(static_cast<void *>(to), created.get(), std::min<std::size_t>(size, sizeof(T)));
        to->size = size;
    });
}

int check_range(const struct rpma_mirror *mirror, std::uint64_t offset, std::uint64_t length) noexcept
{
    const rpma_mirror_range r{offset, length};
    return is_unusable(mirror) ? RPMA_MIRROR_E_INVAL : mirror->lanes.check_ranges(0, &r, 1);
}

int check_flush(const struct rpma_mirror *mirror, unsigned lane, const rpma_mirror_range *ranges, std::size_t n_ranges,
        unsigned flags, unsigned supported) noexcept
{
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    if (has_unknown(flags, supported))
        return RPMA_MIRROR_E_INVAL;
    return mirror->lanes.check_ranges(lane, ranges, n_ranges);
}

int unmap(struct rpma_mirror **mirror_ptr, closing how) noexcept
{
    if (mirror_ptr == nullptr)
        return null("mirror_ptr");
    if (*mirror_ptr != nullptr && (*mirror_ptr)->is_in_callback())
        return fail(RPMA_MIRROR_E_BUSY, "rpma_mirror_unmap: not allowed in a callback of the same mirror");
    std::unique_ptr<rpma_mirror> ended(std::exchange(*mirror_ptr, nullptr));
    if (ended != nullptr && is_unusable(ended.get())) {
        (void)ended.release(); // its destructor would end the connections of the parent, and the lease of its arbiter
        return RPMA_MIRROR_E_INVAL;
    }
    return ended == nullptr ? 0 : guarded([&] { ended->close(how); });
}

} // namespace

int rpma_mirror_create(const struct rpma_mirror_cfg *cfg)
{
    return cfg == nullptr ? null("cfg") : guarded([&] {
        set_parts parts(cfg->value);
        creation(parts).create();
    });
}

int rpma_mirror_map(
        const struct rpma_mirror_cfg *cfg, void *hint, unsigned flags, void **address, struct rpma_mirror **mirror_ptr)
{
    if (cfg == nullptr || address == nullptr || mirror_ptr == nullptr)
        return null("cfg, address and mirror_ptr");
    if (has_unknown(flags, RPMA_MIRROR_F_FORCE))
        return RPMA_MIRROR_E_INVAL;
    return guarded([&] {
        auto created = rpma_mirror::open(cfg->value, {.force = (flags & RPMA_MIRROR_F_FORCE) != 0, .hint = hint});
        *address = created->local().address();
        *mirror_ptr = created.release();
    });
}

int rpma_mirror_map_memory(const struct rpma_mirror_cfg *cfg, void *address, size_t length, unsigned flags,
        struct rpma_mirror **mirror_ptr)
{
    if (cfg == nullptr || address == nullptr || mirror_ptr == nullptr)
        return null("cfg, address and mirror_ptr");
    if (has_unknown(flags, RPMA_MIRROR_F_FORCE))
        return RPMA_MIRROR_E_INVAL;
    if (reinterpret_cast<std::uintptr_t>(address) % replica::page_size != 0)
        return fail(RPMA_MIRROR_E_INVAL, "the address is not aligned to a page");
    return guarded([&] {
        const bool force = (flags & RPMA_MIRROR_F_FORCE) != 0;
        *mirror_ptr =
                rpma_mirror::open(cfg->value, {.force = force, .mapped = address, .mapped_length = length}).release();
    });
}

int rpma_mirror_unmap(struct rpma_mirror **mirror_ptr)
{
    return unmap(mirror_ptr, closing::compares);
}

int rpma_mirror_unmap_flushed(struct rpma_mirror **mirror_ptr)
{
    return unmap(mirror_ptr, closing::all_flushed);
}

int rpma_mirror_get_length(const struct rpma_mirror *mirror, size_t *length)
{
    if (mirror == nullptr || length == nullptr)
        return null("mirror and length");
    *length = mirror->local().length();
    return 0;
}

int rpma_mirror_optimized_flush(struct rpma_mirror *mirror, unsigned lane, const struct rpma_mirror_range *ranges,
        size_t n_ranges, unsigned flags)
{
    constexpr unsigned supported = RPMA_MIRROR_F_LAST_RANGE_ORDERED | RPMA_MIRROR_F_DEEP;
    if (const int code = check_flush(mirror, lane, ranges, n_ranges, flags, supported); code != 0)
        return code;
    return mirror->lanes.flush(lane, ranges, n_ranges, flags);
}

int rpma_mirror_flush_start(struct rpma_mirror *mirror, unsigned lane, const struct rpma_mirror_range *ranges,
        size_t n_ranges, unsigned flags, uint64_t *ticket)
{
    if (ticket == nullptr)
        return null("ticket");
    if (const int code = check_flush(mirror, lane, ranges, n_ranges, flags, RPMA_MIRROR_F_DEEP); code != 0)
        return code;
    return mirror->lanes.flush_start(lane, ranges, n_ranges, flags, ticket);
}

int rpma_mirror_flush_wait(struct rpma_mirror *mirror, unsigned lane, uint64_t ticket, int timeout_ms)
{
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    if (const int code = mirror->lanes.check_ranges(lane, nullptr, 0); code != 0)
        return code;
    return mirror->lanes.flush_wait(lane, ticket, timeout_ms);
}

int rpma_mirror_get_lane_fd(struct rpma_mirror *mirror, unsigned lane, int *fd)
{
    if (mirror == nullptr || fd == nullptr)
        return null("mirror and fd");
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    if (const int code = mirror->lanes.check_ranges(lane, nullptr, 0); code != 0)
        return code;
    return guarded([&] { *fd = mirror->lanes.descriptor_of(lane); });
}

int rpma_mirror_flush_take(struct rpma_mirror *mirror, unsigned lane, uint64_t *tickets, size_t *n_tickets)
{
    if (mirror == nullptr || tickets == nullptr || n_tickets == nullptr)
        return null("mirror, tickets and n_tickets");
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    if (const int code = mirror->lanes.check_ranges(lane, nullptr, 0); code != 0)
        return code;
    return mirror->lanes.flush_take(lane, tickets, n_tickets);
}

int rpma_mirror_optimized_flush_and_verify(struct rpma_mirror *mirror, unsigned lane,
        const struct rpma_mirror_range *ranges, size_t n_ranges, unsigned flags, enum rpma_mirror_verify_level *level,
        struct rpma_mirror_error *first_mismatch)
{
    constexpr unsigned supported = RPMA_MIRROR_F_LAST_RANGE_ORDERED | RPMA_MIRROR_F_DEEP;
    if (const int code = check_flush(mirror, lane, ranges, n_ranges, flags, supported); code != 0)
        return code;
    return guarded([&] {
        const rpma_mirror_verify_level verified =
                mirror->verification.flush_and_verify(lane, ranges, n_ranges, flags, first_mismatch);
        if (level != nullptr)
            *level = verified;
    });
}

int rpma_mirror_sync(struct rpma_mirror *mirror, unsigned lane, uint64_t offset, uint64_t length, unsigned flags)
{
    const struct rpma_mirror_range r = {offset, length};
    if (has_unknown(flags, RPMA_MIRROR_F_DEEP))
        return RPMA_MIRROR_E_INVAL;
    return rpma_mirror_optimized_flush(mirror, lane, &r, 1, flags);
}

int rpma_mirror_atomic_write(struct rpma_mirror *mirror, unsigned lane, uint64_t offset, uint64_t value)
{
    const struct rpma_mirror_range r = {offset, sizeof(value)};
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    if (const int code = mirror->lanes.check_ranges(lane, &r, 1); code != 0)
        return code;
    if (offset % sizeof(value) != 0)
        return fail(RPMA_MIRROR_E_INVAL, "the offset is not a multiple of 8");
    return mirror->lanes.atomic_write(lane, offset, value);
}

int rpma_mirror_set_consistency_point(struct rpma_mirror *mirror, uint64_t point)
{
    return is_unusable(mirror) ? RPMA_MIRROR_E_INVAL
                               : guarded([&] { mirror->parts.members.set_consistency_point(point); });
}

int rpma_mirror_read(
        struct rpma_mirror *mirror, unsigned lane, unsigned copy, void *dst, uint64_t offset, uint64_t length)
{
    const struct rpma_mirror_range r = {offset, length};
    if (mirror == nullptr || dst == nullptr)
        return null("mirror and dst");
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    if (const int code = mirror->lanes.check_ranges(lane, &r, 1); code != 0)
        return code;
    return length == 0 ? 0 : mirror->lanes.read(lane, copy, dst, {offset, length});
}

int rpma_mirror_get_state(struct rpma_mirror *mirror, struct rpma_mirror_state *state)
{
    return is_unusable(mirror) ? RPMA_MIRROR_E_INVAL : fill(state, [&](rpma_mirror_state &to) { mirror->state(to); });
}

int rpma_mirror_inspect(const struct rpma_mirror_cfg *cfg, struct rpma_mirror_state *state)
{
    return cfg == nullptr ? null("cfg")
                          : fill(state, [&](rpma_mirror_state &to) { rpma_mirror::inspect(cfg->value, to); });
}

int rpma_mirror_get_attributes(struct rpma_mirror *mirror, unsigned copy, struct rpma_mirror_attributes *attributes)
{
    return is_unusable(mirror) ? RPMA_MIRROR_E_INVAL
                               : fill(attributes, [&](rpma_mirror_attributes &to) { mirror->attributes(copy, to); });
}

int rpma_mirror_get_event_fd(const struct rpma_mirror *mirror, int *fd)
{
    if (mirror == nullptr || fd == nullptr)
        return null("mirror and fd");
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    *fd = mirror->parts.published.fd();
    return 0;
}

int rpma_mirror_next_event(struct rpma_mirror *mirror, struct rpma_mirror_event *event)
{
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    return fill(event, [&](rpma_mirror_event &to) {
        if (!mirror->parts.published.next(to))
            throw failure(RPMA_MIRROR_E_NOT_FOUND, "no event is available");
    });
}

int rpma_mirror_get_error_info(struct rpma_mirror *mirror, struct rpma_mirror_error *errors, size_t *n_errors)
{
    if (mirror == nullptr || n_errors == nullptr || (errors == nullptr && *n_errors != 0))
        return null("mirror, errors and n_errors");
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    *n_errors = mirror->parts.published.errors(errors, *n_errors);
    return 0;
}

int rpma_mirror_get_statistics(struct rpma_mirror *mirror, struct rpma_mirror_statistics *statistics)
{
    return is_unusable(mirror) ? RPMA_MIRROR_E_INVAL
                               : fill(statistics, [&](rpma_mirror_statistics &to) { mirror->statistics(to); });
}

int rpma_mirror_get_metrics(struct rpma_mirror *mirror, char **text)
{
    if (mirror == nullptr || text == nullptr)
        return null("mirror and text");
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    return guarded([&] { *text = copy_for_caller(mirror->metrics()); });
}

int rpma_mirror_check(struct rpma_mirror *mirror, unsigned copy, uint64_t offset, uint64_t length,
        struct rpma_mirror_error *errors, size_t *n_errors)
{
    if (n_errors == nullptr || (errors == nullptr && *n_errors != 0))
        return null("errors and n_errors");
    if (const int code = check_range(mirror, offset, length); code != 0)
        return code;
    return guarded([&] { mirror->verification.check(copy, {offset, length}, errors, n_errors); });
}

int rpma_mirror_repair_range(struct rpma_mirror *mirror, uint64_t offset, uint64_t length, unsigned source)
{
    if (const int code = check_range(mirror, offset, length); code != 0)
        return code;
    if (source != RPMA_MIRROR_ALL_COPIES && source >= RPMA_MIRROR_MAX_COPIES)
        return fail(RPMA_MIRROR_E_INVAL, "copy %u: number out of range", source);
    return length == 0 ? 0 : guarded([&] { mirror->verification.repair_range({offset, length}, source); });
}

int rpma_mirror_resync(struct rpma_mirror *mirror, unsigned copy, const struct rpma_mirror_resync_options *options)
{
    return is_unusable(mirror) ? RPMA_MIRROR_E_INVAL
                               : guarded([&] { mirror->targets.resync(copy, limits_of(options)); });
}

int rpma_mirror_verify(struct rpma_mirror *mirror, unsigned copy, const struct rpma_mirror_resync_options *options,
        struct rpma_mirror_verify_report *report)
{
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    bool different = false;
    const int code = fill(report, [&](rpma_mirror_verify_report &to) {
        mirror->verification.verify(copy, limits_of(options), to);
        different = to.differing_segments != 0;
    });
    if (code != 0 || !different)
        return code;
    return fail(RPMA_MIRROR_E_VERIFY, "%u segments of copy %u differ", report->differing_segments, copy);
}

int rpma_mirror_add_target(struct rpma_mirror *mirror, unsigned copy, const char *target, const char *poolset,
        const struct rpma_mirror_resync_options *options)
{
    if (mirror == nullptr || target == nullptr || poolset == nullptr)
        return null("mirror, target and poolset");
    if (is_unusable(mirror))
        return RPMA_MIRROR_E_INVAL;
    return guarded([&] { mirror->targets.add_target(copy, target, poolset, limits_of(options)); });
}

int rpma_mirror_remove_target(struct rpma_mirror *mirror, unsigned copy)
{
    return is_unusable(mirror) ? RPMA_MIRROR_E_INVAL : guarded([&] { mirror->targets.remove_target(copy); });
}

int rpma_mirror_recover(const struct rpma_mirror_cfg *cfg, unsigned flags, struct rpma_mirror_recovery_report *report)
{
    if (cfg == nullptr)
        return null("cfg");
    if (has_unknown(flags, RPMA_MIRROR_F_FORCE))
        return RPMA_MIRROR_E_INVAL;
    rpma_mirror_recovery_report unwanted{};
    unwanted.size = sizeof(unwanted);
    return fill(report == nullptr ? &unwanted : report, [&](rpma_mirror_recovery_report &to) {
        const auto opened = rpma_mirror::open(cfg->value, {.force = (flags & RPMA_MIRROR_F_FORCE) != 0});
        to = opened->report();
        opened->close(closing::unchanged);
    });
}

int rpma_mirror_grow(struct rpma_mirror *mirror, size_t length)
{
    return is_unusable(mirror) ? RPMA_MIRROR_E_INVAL : guarded([&] { mirror->growth.grow(length); });
}

int rpma_mirror_grow_closed(const struct rpma_mirror_cfg *cfg, size_t length)
{
    if (cfg == nullptr)
        return null("cfg");
    return guarded([&] {
        check_new_length(length);
        rpma_mirror::open(cfg->value, {.grow_to = length})->close(closing::unchanged);
    });
}

int rpma_mirror_get_recovery_report(const struct rpma_mirror *mirror, struct rpma_mirror_recovery_report *report)
{
    return is_unusable(mirror) ? RPMA_MIRROR_E_INVAL
                               : fill(report, [&](rpma_mirror_recovery_report &to) { to = mirror->report(); });
}

int rpma_mirror_fence(const struct rpma_mirror_cfg *cfg, unsigned flags, uint64_t *epoch)
{
    if (cfg == nullptr)
        return null("cfg");
    if (has_unknown(flags, RPMA_MIRROR_F_FORCE))
        return RPMA_MIRROR_E_INVAL;
    return guarded([&] {
        set_parts parts(cfg->value);
        const std::uint64_t taken = creation(parts).fence((flags & RPMA_MIRROR_F_FORCE) != 0);
        if (epoch != nullptr)
            *epoch = taken;
    });
}

int rpma_mirror_map_read_only(
        const struct rpma_mirror_cfg *cfg, unsigned flags, int timeout_ms, struct rpma_mirror_reader **reader_ptr)
{
    if (cfg == nullptr || reader_ptr == nullptr)
        return null("cfg and reader_ptr");
    if (has_unknown(flags, RPMA_MIRROR_F_ANY_TIME))
        return RPMA_MIRROR_E_INVAL;
    return guarded([&] {
        auto created = std::make_unique<rpma_mirror_reader>(cfg->value);
        created->refresh((flags & RPMA_MIRROR_F_ANY_TIME) != 0, timeout_ms);
        *reader_ptr = created.release();
    });
}

int rpma_mirror_refresh(struct rpma_mirror_reader *reader, unsigned flags, int timeout_ms)
{
    if (reader == nullptr)
        return null("reader");
    if (has_unknown(flags, RPMA_MIRROR_F_ANY_TIME))
        return RPMA_MIRROR_E_INVAL;
    return guarded([&] { reader->refresh((flags & RPMA_MIRROR_F_ANY_TIME) != 0, timeout_ms); });
}

int rpma_mirror_get_image(const struct rpma_mirror_reader *reader, struct rpma_mirror_image *image)
{
    return reader == nullptr ? null("reader") : fill(image, [&](rpma_mirror_image &to) { reader->describe(to); });
}

int rpma_mirror_unmap_read_only(struct rpma_mirror_reader **reader_ptr)
{
    if (reader_ptr == nullptr)
        return null("reader_ptr");
    delete std::exchange(*reader_ptr, nullptr);
    return 0;
}
