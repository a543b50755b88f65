// SPDX-License-Identifier: BSD-3-Clause
// Work of a program with a set. All functions here run in threads of the simulation.
#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "session.hpp"

namespace simulation
{

namespace
{

void on_event(void *, const rpma_mirror_event *event)
{
    world::instance->log("copy %u: event %d, version %lu.%lu", event->copy, event->type, event->epoch, event->version);
}

} // namespace

// The set file contains the old or the new length of a set that has grown.
rpma_mirror_cfg *scenario::configure(unsigned machine, bool force)
{
    rpma_mirror_cfg *cfg = nullptr;
    rpma_mirror_cfg_new(&cfg);
    rpma_mirror_cfg_set_local_copy(cfg, copy_of(machine), (directory(machine) + "/home").c_str(),
            grows_ && !force && world_.one_in(2) ? history_.set_length() : history_.length, nullptr);
    rpma_mirror_cfg_set_max_length(cfg, grows_ ? history_.max_length() : 0);
    for (unsigned m = writers; m < writers + targets_; ++m)
        rpma_mirror_cfg_add_target(cfg, copy_of(m), (address_of(m) + ":7").c_str(), "set");
    rpma_mirror_cfg_set_key_file(cfg, (directory(machine) + "/key").c_str());
    rpma_mirror_cfg_set_policy(cfg, availability_ ? RPMA_MIRROR_POLICY_AVAILABILITY : RPMA_MIRROR_POLICY_SAFETY);
    if (keeper::instance != nullptr && rpma_mirror_cfg_set_arbiter(cfg, "etcd simulated") != 0)
        world_.violated("no arbiter: %s", rpma_mirror_error_message());
    rpma_mirror_cfg_set_timeouts(cfg, operation_ms_, open_ms_);
    rpma_mirror_cfg_set_lanes(cfg, lanes, 16);
    rpma_mirror_cfg_set_background_resync(cfg, background_, 0);
    rpma_mirror_cfg_set_slow_limit(cfg, faults_ ? slow_count_ : 0, operation_ms_ / 8);
    rpma_mirror_cfg_set_admin_socket(cfg, 0);
    rpma_mirror_cfg_set_event_function(cfg, on_event, nullptr);
    return cfg;
}

// Repeats the creation until the set exists, even if responses are lost or the creating process dies.
void scenario::create(unsigned machine)
{
    rpma_mirror_cfg *cfg = configure(machine);
    const bool again = std::exchange(creation_begun_, true);
    for (int tries = 0;; ++tries) {
        const int code = rpma_mirror_create(cfg);
        // The killed process had created the set, but had not reported it.
        if (code == 0 || (code == RPMA_MIRROR_E_EXISTS && again && tries == 0))
            break;
        world_.log("cannot create: %s", rpma_mirror_error_message());
        if (code == RPMA_MIRROR_E_EXISTS || tries == 20)
            world_.violated("cannot create: %s", rpma_mirror_error_message());
        world_.sleep(100 * ms);
    }
    created_ = true;
}

bool scenario::open(session &s, unsigned tries, unsigned flags)
{
    if (is_pool_)
        return open_pool(s, tries);
    rpma_mirror_cfg_delete(&s.cfg);
    s.cfg = configure(s.machine, flags != 0);
    // When there are no faults, there are no delays either.
    if (!faults_)
        rpma_mirror_cfg_set_timeouts(s.cfg, 1000, open_ms_);
    s.observer = &history_;
    rpma_mirror_cfg_set_eviction_function(
            s.cfg,
            [](void *context, const rpma_mirror_error *error) {
                auto &writer = *static_cast<session *>(context);
                writer.observer->before_eviction(writer.epoch, error->copy);
                if (!writer.may_stop || !world::instance->one_in(8))
                    return 0;
                world::instance->log("stops rather than lose copy %u", error->copy);
                writer.stopped_at = world::instance->now();
                return 1;
            },
            &s);
    for (; tries > 0; --tries) {
        void *address = nullptr;
        const int code = s.code = rpma_mirror_map(s.cfg, nullptr, flags, &address, &s.mirror);
        if (code == 0) {
            rpma_mirror_get_length(s.mirror, &s.length);
            if (flags != 0)
                history_.forced(copy_of(s.machine), s.length);
            rpma_mirror_recovery_report report{};
            report.size = sizeof(report);
            rpma_mirror_get_recovery_report(s.mirror, &report);
            s.address = static_cast<char *>(address);
            s.epoch = report.epoch;
            history_.opened(copy_of(s.machine), report.epoch, report.in_sync, report.consistency_point, s.length);
            closed_[s.machine] = false;
            if (world_.one_in(2))
                for (const std::string &path : {directory(s.machine) + "/home", directory(writers) + "/part"})
                    storage_.back_up(path, s.length);
            return true;
        }
        world_.log("cannot open: %s", rpma_mirror_error_message());
        if (code == RPMA_MIRROR_E_INVAL || code == RPMA_MIRROR_E_NOMEM)
            world_.violated("cannot open: %s", rpma_mirror_error_message());
        world_.sleep(world_.between(10 * ms, 300 * ms));
    }
    return false;
}

history::call scenario::store(session &s, std::size_t slot)
{
    history::call c{s.epoch, slot, {0, 1, 2, 3}, history_.next(slot), world_.now()};
    const std::uint64_t word = word_of(c.number);
    for (const std::uint64_t part : history::words)
        std::memcpy(s.address + history_.at(slot) + part, &word, sizeof(word));
    return c;
}

int scenario::flush_whole(session &s)
{
    const history::call c = store(s, 0);
    const rpma_mirror_range whole{0, s.length};
    const int code = rpma_mirror_optimized_flush(s.mirror, 0, &whole, 1, 0);
    if (code == 0)
        history_.acknowledged(c);
    return code;
}

int scenario::flush(session &s, unsigned lane, history::call &c)
{
    if (is_pool_)
        return flush_pool(s, lane, c);
    const std::uint64_t at = history_.at(c.slot);
    const rpma_mirror_range ranges[] = {{at, 8}, {at + 1000, 8}, {at + 4096, 16}};
    // A chain of 64 ranges with the words at its start, in its middle and at its end.
    rpma_mirror_range chain[64];
    for (unsigned i = 0; i < 64; ++i)
        chain[i] = i % 31 == 0 ? ranges[i / 31] : rpma_mirror_range{at + 5000 + i * 80, 8};
    std::uint64_t ticket = 0;
    int code = 0;
    switch (world_.below(6)) {
    case 0:
        code = rpma_mirror_flush_start(s.mirror, lane, ranges, 3, 0, &ticket);
        if (code == 0 && world_.one_in(2))
            world_.sleep(world_.between(0, 20 * ms));
        return code != 0 ? code : rpma_mirror_flush_wait(s.mirror, lane, ticket, -1);
    case 1:
        return rpma_mirror_optimized_flush(s.mirror, lane, ranges, 3, RPMA_MIRROR_F_LAST_RANGE_ORDERED);
    case 2:
        return rpma_mirror_optimized_flush(s.mirror, lane, ranges, 3, RPMA_MIRROR_F_DEEP);
    case 3:
        if (flushes_all_) // atomic_write() flushes one word only
            return rpma_mirror_optimized_flush(s.mirror, lane, ranges, 3, 0);
        c.parts = {0};
        return rpma_mirror_atomic_write(s.mirror, lane, at, word_of(c.number));
    case 4:
        return rpma_mirror_optimized_flush(s.mirror, lane, chain, 64, 0);
    default:
        return rpma_mirror_optimized_flush(s.mirror, lane, ranges, 3, 0);
    }
}

void scenario::mark(session &s)
{
    const std::uint64_t mark = history_.next_mark();
    const time_us began = world_.now();
    const int code = rpma_mirror_set_consistency_point(s.mirror, mark);
    world_.log("mark %lu: %d", mark, code);
    if (code == 0)
        history_.marked(s.epoch, mark, began);
}

void scenario::write_lane(session &s, unsigned lane)
{
    while (s.code == 0 && !s.over) {
        // Only one lane sets consistency points, so they become durable in order.
        if (lane == 0 && !is_pool_ && world_.one_in(12))
            mark(s);
        const std::size_t slots = is_pool_ ? history::slots : history_.slots_in(s.length);
        const std::size_t slot = world_.below(slots / lanes) * lanes + lane;
        history::call c = store(s, slot);
        // Occasionally stores without a flush.
        if (flushes_all_ || !world_.one_in(10)) {
            const int code = flush(s, lane, c);
            world_.log("flush %lu in slot %zu since %ld us: %d", c.number, slot, c.began, code);
            if (code == 0 && s.stopped_before(c.began))
                world_.violated("flush %lu is acknowledged after the program stopped", c.number);
            if (code == 0)
                history_.acknowledged(c);
            else if (s.code == 0)
                s.code = code;
        }
        world_.sleep(world_.one_in(2) ? world_.between(0, 2 * ms) : world_.between(0, 60 * ms));
    }
    world_.log("lane %u ends with %d", lane, s.code);
}

void scenario::bring_back(session &s)
{
    rpma_mirror_state now{};
    now.size = sizeof(now);
    while (s.code == 0 && !s.over && rpma_mirror_get_state(s.mirror, &now) == 0 && now.is_open != 0) {
        for (unsigned copy = 0; copy < RPMA_MIRROR_MAX_COPIES && !s.over; ++copy)
            if (now.copies[copy].state == RPMA_MIRROR_COPY_STALE ||
                    now.copies[copy].state == RPMA_MIRROR_COPY_OFFLINE) {
                const int code = rpma_mirror_resync(s.mirror, copy, nullptr);
                world_.log("resync of %u: %s", copy, code == 0 ? "in sync" : rpma_mirror_error_message());
            }
        world_.sleep(world_.between(5 * ms, 200 * ms));
    }
}

std::uint64_t scenario::next_length()
{
    const std::uint64_t next = history_.set_length() + (1 + world_.below(2)) * history::growth;
    return next <= history_.max_length() ? next : 0;
}

void scenario::begin_growth(std::uint64_t length)
{
    history_.requested_length = std::max(history_.requested_length, length);
    const auto any = static_cast<unsigned>(world_.below(writers + targets_));
    if (faults_ && world_.one_in(6)) {
        world_.log("the disk of machine %u is full", any);
        storage_.full = directory(any) + "/";
        world_.at(world_.between(0, 2 * second), [this] { storage_.full.clear(); });
    }
    for (unsigned m = writers; m < writers + targets_; ++m)
        if (!faults_ || m != any || !world_.one_in(4)) // the operator may forget a set file
            list_part(m, history_.requested_length);
    if (keeper::instance != nullptr && faults_ && world_.one_in(4))
        keeper_.silent_until = world_.now() + world_.between(0, 8 * second);
    if (world_.one_in(2))
        world_.at(world_.between(0, 40 * ms), [this] { hit(); });
}

int scenario::grow(session &s)
{
    const std::uint64_t length = next_length();
    if (length == 0)
        return 0;
    begin_growth(length);
    const time_us began = world_.now();
    const int code = rpma_mirror_grow(s.mirror, length);
    world_.log("growth to %lu: %s", length, code == 0 ? "done" : rpma_mirror_error_message());
    if (code == 0) {
        history_.grown(s.epoch, length, began);
        s.length = length;
        return 0;
    }
    if (code == RPMA_MIRROR_E_INVAL || code == RPMA_MIRROR_E_NOMEM)
        world_.violated("cannot grow: %s", rpma_mirror_error_message());
    rpma_mirror_state now{};
    now.size = sizeof(now);
    if (rpma_mirror_get_state(s.mirror, &now) == 0 && now.is_open != 0)
        history_.not_grown(s.epoch, s.length);
    return code;
}

int scenario::grow_closed(unsigned machine)
{
    const std::uint64_t length = next_length();
    if (length == 0)
        return 0;
    begin_growth(length);
    const time_us began = world_.now();
    closed_[machine] = false;
    rpma_mirror_cfg *const cfg = configure(machine);
    const int code = rpma_mirror_grow_closed(cfg, length);
    world_.log("growth of the closed set to %lu: %s", length, code == 0 ? "done" : rpma_mirror_error_message());
    // The call cannot shrink a set whose growth to a larger length was interrupted, or that grew during the call.
    const bool shrinks = length < history_.requested_length;
    if ((code == RPMA_MIRROR_E_INVAL && !shrinks) || code == RPMA_MIRROR_E_NOMEM)
        world_.violated("cannot grow the closed set: %s", rpma_mirror_error_message());
    if (code == 0)
        history_.grown(0, length, began);
    closed_[machine] = code == 0;
    return code;
}

void scenario::write(unsigned machine)
{
    session s;
    s.machine = machine;
    s.may_stop = true;
    if (!open(s, 12))
        return;
    std::thread other([&] { write_lane(s, 1); }), returner([&] {
        if (program_resyncs_ && !is_pool_)
            bring_back(s);
    }),
            grower([&] {
                while (grows_ && s.code == 0 && !s.over) {
                    world_.sleep(world_.between(0, 500 * ms));
                    if (s.code == 0 && !s.over)
                        grow(s);
                }
            });
    if (world_.one_in(3))
        world_.at(world_.between(50 * ms, 2 * second), [p = &world_.here(), &s] {
            if (p->alive)
                s.over = true;
        });
    write_lane(s, 0);
    s.over = true;
    other.join();
    returner.join();
    grower.join();
    // The end waits for the ticket: the data might be lost with the connection.
    if (flushes_all_ && s.code == 0) {
        const history::call c = store(s, 0);
        const rpma_mirror_range whole{0, s.length};
        std::uint64_t ticket = 0;
        s.code = rpma_mirror_flush_start(s.mirror, 0, &whole, 1, 0, &ticket);
        if (faults_ && world_.one_in(4))
            device_.break_one();
        world_.log("flush %lu is not awaited: %d", c.number, s.code);
    }
    const int code = is_pool_                      ? rpmem_close(s.pool)
                     : flushes_all_ && s.code == 0 ? rpma_mirror_unmap_flushed(&s.mirror)
                                                   : rpma_mirror_unmap(&s.mirror);
    closed_[machine] = code == 0;
    world_.log("the end: %s", code == 0 ? "closed" : is_pool_ ? rpmem_errormsg() : rpma_mirror_error_message());
    history_.check_claims();
}

// Data that a dead writer has sent may arrive now, including a request for a promise. Other errors are not expected.
void scenario::end_unless_overtaken(const session &s, const char *what)
{
    if (!history_.overtaken(s.epoch))
        world_.violated(
                "nothing goes wrong, and %s: %s", what, is_pool_ ? rpmem_errormsg() : rpma_mirror_error_message());
    world_.log("a dead writer has overtaken this one: %s", what);
}

// All machines return. All copies must have the same content.
void scenario::finish(unsigned machine)
{
    session s;
    s.machine = machine;
    if (!open(s, 5))
        return;
    rpma_mirror_state now{};
    now.size = sizeof(now);
    const std::uint32_t all = all_targets() | 1U << copy_of(machine);
    for (int tries = 0; now.in_sync != all; ++tries) {
        if (tries == 50)
            return end_unless_overtaken(s, "the copies do not come back");
        for (unsigned m = writers; m < writers + targets_; ++m)
            rpma_mirror_resync(s.mirror, copy_of(m), nullptr);
        rpma_mirror_get_state(s.mirror, &now);
        world_.sleep(10 * ms);
    }
    if (grows_ && finished_ == 0 && grow(s) != 0)
        return end_unless_overtaken(s, "the set does not grow");
    if (flush_whole(s) != 0)
        return end_unless_overtaken(s, "a flush fails");
    rpma_mirror_get_state(s.mirror, &now);
    if (now.in_sync != all)
        return end_unless_overtaken(s, "a copy is lost");
    history_.equal(copy_of(machine), now.in_sync);
    if (rpma_mirror_unmap(&s.mirror) != 0)
        return end_unless_overtaken(s, "the set cannot be closed");
    closed_[machine] = true;
    ++finished_;
}

} // namespace simulation
