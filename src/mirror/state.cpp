// SPDX-License-Identifier: BSD-3-Clause
#include "set.hpp"

#include <algorithm>
#include <cstring>

#include "discovery.hpp"
#include "failure.hpp"

using namespace mirror;

namespace
{

void put_text(char *to, std::size_t size, const std::string &text)
{
    to[text.copy(to, size - 1)] = '\0';
}

void put_record(const replica::mirror_record &r, rpma_mirror_state &to)
{
    to.epoch = r.epoch;
    to.version = r.version;
    to.writer = r.writer;
    to.policy = static_cast<rpma_mirror_policy>(r.policy);
    to.clean = r.closed;
    to.members = r.members;
    to.in_sync = r.in_sync;
    to.consistency_point = r.mark;
}

void put_state(const replica::mirror_state &last_state, rpma_mirror_copy &to)
{
    to.promised_epoch = last_state.promised.epoch;
    to.record_epoch = last_state.committed.epoch;
    to.record_version = last_state.committed.version;
    to.cursor = last_state.cursor;
}

} // namespace

void rpma_mirror::state(rpma_mirror_state &to)
{
    parts.members.reject_reentry();
    const std::lock_guard guard(parts.members);
    to = {};
    to.size = sizeof(to);
    to.is_open = parts.members.terminal_error() == 0;
    std::memcpy(to.uuid, parts.members.writer.set.data(), sizeof(to.uuid));
    to.length = parts.local.length();
    put_record(parts.members.record(), to);
    to.level = parts.local.level();
    rpma_mirror_copy &local = to.copies[parts.configured.local_number];
    local.state = RPMA_MIRROR_COPY_IN_SYNC;
    local.level = parts.local.level();
    local.is_local = 1;
    put_state(parts.local.state(), local);
    put_text(local.location, sizeof(local.location), parts.configured.local_path);
    const roles now = parts.members.now();
    for (const auto &c : parts.copies) {
        if (!c)
            continue;
        rpma_mirror_copy &copy = to.copies[c->where.copy];
        const bool awaited = (now.awaited & c->bit()) != 0, syncing = (now.syncing & c->bit()) != 0;
        copy.state = parts.members.is_synced(c->where.copy) && awaited ? RPMA_MIRROR_COPY_IN_SYNC
                     : awaited || syncing                              ? RPMA_MIRROR_COPY_RESYNCING
                     : c->region                                       ? RPMA_MIRROR_COPY_STALE
                                                                       : RPMA_MIRROR_COPY_OFFLINE;
        copy.level = c->level;
        copy.last_error = c->last_error;
        put_state(c->last_state, copy);
        copy.cursor = std::atomic_ref(c->cursor);
        put_text(copy.location, sizeof(copy.location), c->where.name());
        put_text(copy.poolset, sizeof(copy.poolset), c->where.set_name);
        if (copy.state == RPMA_MIRROR_COPY_IN_SYNC)
            to.level = std::min(to.level, c->level);
    }
}

void rpma_mirror::inspect(const settings &of, rpma_mirror_state &to)
{
    set_parts parts(of);
    discovery found(parts);
    bool has_local_state = false, local_in_use = false;
    try {
        has_local_state = parts.local.read_state();
    } catch (const failure &error) {
        // A writer on this machine has the set open.
        local_in_use = error.code() == RPMA_MIRROR_E_BUSY;
        if (!local_in_use)
            throw;
    }
    found.start_with(parts.local.state().committed);
    found.connect_all(discovery::scope::needed, replica::deadline(of.open_ms / 4 + 1));
    to = {};
    to.size = sizeof(to);
    replica::mirror_record newest = has_local_state ? parts.local.state().committed : replica::mirror_record();
    replica::mirror_state some = has_local_state ? parts.local.state() : replica::mirror_state();
    // A copy that has the newest record has the length of the set.
    to.length = some.length;
    // Returns whether an opening rejects the target: its copy belongs to another set or has another number.
    const auto is_foreign = [&](const remote_copy &c) {
        return c.last_state.length != 0 && (c.last_state.set != some.set || c.last_state.copy != c.where.copy);
    };
    for (const auto &c : parts.copies) {
        if (!c || !c->responded)
            continue;
        some = some.length == 0 ? c->last_state : some;
        if (is_foreign(*c))
            continue;
        if (!is_newer(c->last_state.committed, newest) && to.length != 0)
            continue;
        newest = c->last_state.committed;
        to.length = c->last_state.length;
    }
    std::memcpy(to.uuid, some.set.data(), sizeof(to.uuid));
    put_record(newest, to);
    const auto state_of = [&](unsigned copy, const replica::mirror_record &committed) {
        return committed == newest && (newest.in_sync >> copy & 1) != 0 ? RPMA_MIRROR_COPY_IN_SYNC
                                                                        : RPMA_MIRROR_COPY_STALE;
    };
    rpma_mirror_copy &local = to.copies[of.local_number];
    local.is_local = 1;
    local.state = has_local_state ? state_of(of.local_number, parts.local.state().committed)
                  : local_in_use  ? state_of(of.local_number, newest)
                                  : RPMA_MIRROR_COPY_OFFLINE;
    local.last_error = local_in_use ? RPMA_MIRROR_E_BUSY : 0;
    put_text(local.location, sizeof(local.location), of.local_path);
    if (has_local_state)
        put_state(parts.local.state(), local);
    // The set cannot be opened without these targets. rpma-mirror add can have been killed before it wrote the line.
    each_copy(required_targets(newest) & ~(of.target_copies() | 1U << of.local_number), [&](unsigned copy) {
        to.copies[copy].state = RPMA_MIRROR_COPY_OFFLINE;
        to.copies[copy].last_error = RPMA_MIRROR_E_NOT_FOUND;
        put_text(to.copies[copy].location, sizeof(to.copies[copy].location), "(not in the set file)");
    });
    for (const auto &c : parts.copies) {
        if (!c)
            continue;
        rpma_mirror_copy &copy = to.copies[c->where.copy];
        copy.state = c->responded ? state_of(c->where.copy, c->last_state.committed) : RPMA_MIRROR_COPY_OFFLINE;
        copy.last_error = c->last_error;
        if (c->responded && is_foreign(*c)) {
            copy.state = RPMA_MIRROR_COPY_STALE;
            copy.last_error = RPMA_MIRROR_E_NOT_FOUND;
        }
        put_state(c->last_state, copy);
        put_text(copy.location, sizeof(copy.location), c->where.name());
        put_text(copy.poolset, sizeof(copy.poolset), c->where.set_name);
    }
}

void rpma_mirror::attributes(unsigned copy, rpma_mirror_attributes &to)
{
    rpma_mirror_state now{};
    state(now);
    const bool whole = copy == RPMA_MIRROR_ALL_COPIES;
    if (!whole && (copy >= RPMA_MIRROR_MAX_COPIES || now.copies[copy].state == RPMA_MIRROR_COPY_ABSENT))
        throw failure(RPMA_MIRROR_E_NOT_FOUND, "copy " + std::to_string(copy) + " not found");
    const bool is_local = !whole && copy == parts.configured.local_number;
    const bool user_flush = parts.local.level() == RPMA_MIRROR_LEVEL_CPU_FLUSHED;
    to = {};
    to.size = sizeof(to);
    to.level = whole ? now.level : now.copies[copy].level;
    to.interrupted_store_atomicity = 8;
    // Poison affects 256 bytes with CPU flushes, and a page with the page cache.
    to.fundamental_error_range = to.level >= RPMA_MIRROR_LEVEL_CPU_FLUSHED ? 256 : 4096;
    to.optimized_flush_capable = 1;
    to.optimized_flush_allowed = is_local || whole ? user_flush : to.level >= RPMA_MIRROR_LEVEL_CPU_FLUSHED;
    to.optimized_flush_and_verify_capable = 1;
    to.verify_level = is_local ? RPMA_MIRROR_VERIFY_NONE : RPMA_MIRROR_VERIFY_CACHE;
    to.deep_flush_capable = to.level >= RPMA_MIRROR_LEVEL_CPU_FLUSHED;
    to.error_event_capable = 1;
    to.error_event_precise = is_local;
    to.error_event_live = 1;
}

void rpma_mirror::statistics(rpma_mirror_statistics &to) const
{
    to = {};
    to.size = sizeof(to);
    to.flushes = parts.counted.flushes;
    to.ranges = parts.counted.ranges;
    to.bytes = parts.counted.bytes;
    to.evictions = parts.counted.evictions;
    to.resyncs = parts.counted.resyncs;
    to.compared_bytes = parts.counted.compared;
    to.sent_bytes = parts.counted.sent;
    to.repaired_bytes = parts.counted.repaired;
    to.late_confirmations = parts.counted.late;
    to.slow_evictions = parts.counted.slow_evictions;
}
