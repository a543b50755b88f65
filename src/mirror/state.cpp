// SPDX-License-Identifier: BSD-3-Clause
// What a set tells about itself.
#include "set.hpp"

#include <algorithm>
#include <cstring>

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

void put_known(const replica::mirror_state &known, rpma_mirror_copy &to)
{
    to.promised_epoch = known.promised.epoch;
    to.record_epoch = known.committed.epoch;
    to.record_version = known.committed.version;
    to.cursor = known.cursor;
}

} // namespace

void rpma_mirror::state(rpma_mirror_state &to)
{
    membership_.refuse_holder();
    const std::lock_guard hold(membership_);
    to = {};
    to.size = sizeof(to);
    to.is_open = over_ == 0;
    std::memcpy(to.uuid, set_.data(), sizeof(to.uuid));
    to.length = home_.length();
    put_record(record_, to);
    to.level = home_.level();
    rpma_mirror_copy &own = to.copies[settings_.home_copy];
    own.state = RPMA_MIRROR_COPY_IN_SYNC;
    own.level = home_.level();
    own.is_local = 1;
    put_known(home_.state(), own);
    put_text(own.location, sizeof(own.location), settings_.home_path);
    const roles now = roles_;
    for (const auto &c : copies_) {
        if (!c)
            continue;
        rpma_mirror_copy &copy = to.copies[c->where.copy];
        const bool awaited = (now.awaited & c->bit()) != 0, syncing = (now.syncing & c->bit()) != 0;
        copy.state = is_synced(c->where.copy) && awaited ? RPMA_MIRROR_COPY_IN_SYNC
                     : awaited || syncing                ? RPMA_MIRROR_COPY_RESYNCING
                     : c->region                         ? RPMA_MIRROR_COPY_STALE
                                                         : RPMA_MIRROR_COPY_OFFLINE;
        copy.level = c->level;
        copy.last_error = c->last_error;
        put_known(c->known, copy);
        copy.cursor = std::atomic_ref(c->cursor);
        put_text(copy.location, sizeof(copy.location), c->where.name());
        put_text(copy.poolset, sizeof(copy.poolset), c->where.set_name);
        if (copy.state == RPMA_MIRROR_COPY_IN_SYNC)
            to.level = std::min(to.level, c->level);
    }
}

void rpma_mirror::inspect(const settings &of, rpma_mirror_state &to)
{
    rpma_mirror m(of);
    bool home_known = false, home_used = false;
    try {
        home_known = m.home_.open_state();
        m.home_.release_state();
    } catch (const failure &problem) {
        // Its writer is at work.
        home_used = problem.code() == RPMA_MIRROR_E_BUSY;
        if (!home_used)
            throw;
    }
    m.newest_ = m.home_.state().committed;
    m.connect_all(scope::needed, deadline(of.open_ms / 4 + 1));
    to = {};
    to.size = sizeof(to);
    record newest = home_known ? m.home_.state().committed : record();
    replica::mirror_state some = home_known ? m.home_.state() : replica::mirror_state();
    for (const auto &c : m.copies_) {
        if (!c || !c->answered)
            continue;
        some = some.length == 0 ? c->known : some;
        newest = is_newer(c->known.committed, newest) ? c->known.committed : newest;
    }
    std::memcpy(to.uuid, some.set.data(), sizeof(to.uuid));
    to.length = some.length;
    put_record(newest, to);
    const auto state_of = [&](unsigned copy, const record &held) {
        return held == newest && (newest.in_sync >> copy & 1) != 0 ? RPMA_MIRROR_COPY_IN_SYNC : RPMA_MIRROR_COPY_STALE;
    };
    rpma_mirror_copy &own = to.copies[of.home_copy];
    own.is_local = 1;
    own.state = home_known  ? state_of(of.home_copy, m.home_.state().committed)
                : home_used ? state_of(of.home_copy, newest)
                            : RPMA_MIRROR_COPY_OFFLINE;
    own.last_error = home_used ? RPMA_MIRROR_E_BUSY : 0;
    put_text(own.location, sizeof(own.location), of.home_path);
    if (home_known)
        put_known(m.home_.state(), own);
    for (const auto &c : m.copies_) {
        if (!c)
            continue;
        rpma_mirror_copy &copy = to.copies[c->where.copy];
        copy.state = c->answered ? state_of(c->where.copy, c->known.committed) : RPMA_MIRROR_COPY_OFFLINE;
        copy.last_error = c->last_error;
        put_known(c->known, copy);
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
        throw failure(RPMA_MIRROR_E_NOT_FOUND, "there is no copy " + std::to_string(copy));
    const bool own = !whole && copy == settings_.home_copy;
    const bool user_flush = home_.flushes_without_system();
    to = {};
    to.size = sizeof(to);
    to.level = whole ? now.level : now.copies[copy].level;
    to.interrupted_store_atomicity = 8;
    // Poison is of a cache line where the processor flushes, and of a page where the kernel does.
    to.fundamental_error_range = to.level >= RPMA_MIRROR_LEVEL_CPU_FLUSHED ? 256 : 4096;
    to.optimized_flush_capable = 1;
    to.optimized_flush_allowed = own || whole ? user_flush : to.level >= RPMA_MIRROR_LEVEL_CPU_FLUSHED;
    to.optimized_flush_and_verify_capable = 1;
    to.verify_level = own ? RPMA_MIRROR_VERIFY_NONE : RPMA_MIRROR_VERIFY_CACHE;
    to.deep_flush_capable = to.level >= RPMA_MIRROR_LEVEL_CPU_FLUSHED;
    to.error_event_capable = 1;
    to.error_event_precise = own;
    to.error_event_live = 1;
}

void rpma_mirror::statistics(rpma_mirror_statistics &to) const
{
    to = {};
    to.size = sizeof(to);
    to.flushes = counted_.flushes;
    to.ranges = counted_.ranges;
    to.bytes = counted_.bytes;
    to.evictions = counted_.evictions;
    to.resyncs = counted_.resyncs;
    to.compared_bytes = counted_.compared;
    to.sent_bytes = counted_.sent;
    to.repaired_bytes = counted_.repaired;
}
