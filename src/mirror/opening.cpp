// SPDX-License-Identifier: BSD-3-Clause
// Opening a set for writing, which promotes this machine if another one had the set (docs/mirror.md).
#include "compare.hpp"

#include <algorithm>
#include <ctime>

#include "failure.hpp"
#include "step.hpp"

using namespace mirror;
using replica::request_type;

namespace
{

// Returns an epoch above each epoch that another machine can have acquired: these grow more slowly than the
// milliseconds since 1970.
std::uint64_t epoch_of_time()
{
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

std::uint32_t devices_of(rpma_mirror_device device)
{
    return device == RPMA_MIRROR_DEVICE_KERNEL     ? replica::device_hardware
           : device == RPMA_MIRROR_DEVICE_SOFTRDMA ? replica::device_software
                                                   : replica::device_hardware | replica::device_software;
}

} // namespace

rpma_mirror::rpma_mirror(const settings &of)
    : settings_(of), events_(settings_), arbiter_(make_arbiter(of.arbiter)), local_(settings_), lanes_(of.lanes)
{
    settings_.check();
}

rpma_mirror::~rpma_mirror()
{
    stop_watching();
    arbiter_->release(deadline(settings_.operation_ms));
}

replica::request rpma_mirror::make_promise_request(const remote_copy &c, request_type type) const
{
    replica::request r = c.make_request(type, set_);
    r.mirror.promise = promise_;
    return r;
}

std::uint32_t rpma_mirror::answered() const
{
    std::uint32_t bits = 0;
    for (const auto &c : copies_)
        if (c && c->answered)
            bits |= c->bit();
    return bits;
}

std::uint32_t rpma_mirror::changed() const
{
    std::uint32_t bits = 0;
    each_copy(answered(), [&](unsigned copy) {
        const record &held = copies_[copy]->known.committed;
        if (held.epoch == newest_.epoch && held.version == newest_.version && (held.in_sync >> copy & 1) == 0)
            bits |= 1U << copy;
    });
    return bits;
}

// Returns whether all required targets of the newest known record have responded; targets without a request are
// ignored. If the local copy is not the source and no required target has a request, waits for all: one must be the
// source.
bool rpma_mirror::has_needed(std::uint32_t asked, std::uint32_t answered) const
{
    const std::uint32_t needed = needed_targets(newest_);
    if (newest_.epoch == 0 || ((needed & asked) == 0 && (needed != 0 || !local_is_newest())))
        return false;
    return (needed & asked & ~answered) == 0;
}

// Calls f for each of the copies concurrently. With scope::needed, an optional target gets a grace period after the
// required targets have responded.
void rpma_mirror::each_in_parallel(std::uint32_t copies, scope whom, const deadline &until,
        const std::function<void(remote_copy &, const deadline &)> &f)
{
    step now(until);
    const std::function<void(remote_copy &, const deadline &)> noted = [&](remote_copy &c, const deadline &within) {
        f(c, within);
        now.note([&] {
            if (is_newer(c.known.committed, newest_))
                newest_ = c.known.committed;
        });
    };
    each_copy(copies, [&](unsigned copy) { now.start(*copies_[copy], noted); });
    now.finish([&](std::uint32_t answered) { return whom == scope::needed && has_needed(copies, answered); });
    // These errors concern the whole set, not one copy.
    for (const auto &c : copies_)
        if (c && (c->last_error == RPMA_MIRROR_E_FENCED || c->last_error == RPMA_MIRROR_E_LEVEL_TOO_LOW ||
                         c->last_error == RPMA_MIRROR_E_CANCELED))
            throw *c->problem;
}

void rpma_mirror::connect_all(scope whom, const deadline &until)
{
    const replica::mirror_key key = read_key(settings_.key_file);
    std::uint32_t all = 0;
    for (const target_settings &t : settings_.targets) {
        copies_[t.copy] = std::make_unique<remote_copy>(t);
        all |= 1U << t.copy;
    }
    each_in_parallel(all, whom, until, [&](remote_copy &c, const deadline &within) {
        c.control = std::make_unique<channel>(c.where, key, within);
        c.known = c.control->ask(c.make_request(request_type::mirror_status, {}), within).mirror;
    });
}

void rpma_mirror::check_local_copy() const
{
    if (settings_.length != 0 && settings_.length != local_.state().length)
        throw failure(RPMA_MIRROR_E_INVAL, "length of the set: " + std::to_string(local_.state().length) +
                                                   " bytes, but " + std::to_string(settings_.length) +
                                                   " in the configuration");
    if (local_.state().copy != settings_.local_number)
        throw failure(RPMA_MIRROR_E_INVAL, settings_.local_path + " is copy " + std::to_string(local_.state().copy) +
                                                   ", not " + std::to_string(settings_.local_number));
}

bool rpma_mirror::open_local_copy()
{
    if (!local_.open_state())
        return false;
    check_local_copy();
    set_ = local_.state().set;
    newest_ = local_.state().committed;
    return true;
}

// Identifies the set by the local copy, or by the targets if there is none yet. Returns its length in bytes.
std::uint64_t rpma_mirror::identify_set()
{
    std::uint64_t length = local_.state().length;
    for (const auto &c : copies_) {
        if (!c || !c->answered)
            continue;
        if (set_ == replica::set_uuid{}) {
            set_ = c->known.set;
            length = c->known.length;
        }
        if (c->known.set != set_ || c->known.length != length || c->known.copy != c->where.copy)
            throw failure(RPMA_MIRROR_E_INVAL,
                    "target " + c->where.name() + ": set or copy number differs from the set file");
    }
    if (set_ == replica::set_uuid{}) {
        for (const auto &c : copies_)
            if (c && c->last_error != RPMA_MIRROR_E_NOT_FOUND)
                throw *c->problem;
        throw failure(RPMA_MIRROR_E_NOT_FOUND, "the set does not exist (create it first)");
    }
    return length;
}

// Creates the local copy on a machine that opens the set for the first time.
void rpma_mirror::create_local_copy(std::uint64_t length)
{
    replica::mirror_state first;
    first.set = set_;
    first.copy = settings_.local_number;
    first.length = length;
    if (settings_.length != 0 && settings_.length != length)
        throw failure(RPMA_MIRROR_E_INVAL, "length of the set: " + std::to_string(length) + " bytes, but " +
                                                   std::to_string(settings_.length) + " in the configuration");
    local_.make(first);
}

void rpma_mirror::ask_arbiter(bool seize, const deadline &until)
{
    arbiters_ = arbiter_->newest(set_, seize, until);
    if (is_newer(arbiters_, newest_))
        newest_ = arbiters_;
}

void rpma_mirror::acquire_epoch(bool seize, const deadline &until)
{
    std::uint64_t highest = std::max(local_.state().promised.epoch, newest_.epoch);
    for (const auto &c : copies_)
        if (c && c->answered)
            highest = std::max({highest, c->known.promised.epoch, c->known.committed.epoch});
    // Copies missing in a forced opening can have higher epochs. The records of this opening must be newer when they
    // return.
    const std::uint64_t epoch = std::max(highest + 1, overrides_ ? epoch_of_time() : 0);
    promise_ = arbiter_->take({epoch, new_writer_id()}, seize, arbiters_, until);
    if (is_newer(arbiters_, newest_))
        newest_ = arbiters_;
}

void rpma_mirror::prepare_all(const deadline &until)
{
    each_in_parallel(answered(), scope::needed, until, [&](remote_copy &c, const deadline &within) {
        c.known = c.control->ask(make_promise_request(c, request_type::mirror_prepare), within).mirror;
    });
}

void rpma_mirror::throw_incomplete(std::uint32_t missing, int code, const char *consequence) const
{
    const auto &first = copies_[static_cast<unsigned>(std::countr_zero(missing))];
    const std::optional<failure> &why = first ? first->problem : std::nullopt;
    throw failure(code,
            settings_.names_of(missing) + " in sync but unreachable" +
                    (why ? std::string(" (") + why->what() + ")" : "") + ": " + consequence +
                    " (use force to override)",
            why ? why->system() : 0);
}

// The arbiter gets a record before the local copy: a writer that ended in between left only its promise in the local
// copy. An interrupted repair has removed the local copy from the record there.
bool rpma_mirror::local_is_newest() const
{
    const replica::mirror_state &own = local_.state();
    const bool wrote = own.promised == replica::mirror_promise{newest_.epoch, newest_.writer} &&
                       (own.committed.epoch != newest_.epoch || (own.committed.in_sync & local_bit()) != 0);
    return newest_.writer_copy == settings_.local_number && (own.committed == newest_ || wrote) &&
           (newest_.in_sync & local_bit()) != 0;
}

void rpma_mirror::choose_source(bool force)
{
    const auto sentence = [&](rpma_mirror_source_reason reason, const std::string &why) {
        report_.reason = reason;
        report_.reason_text[why.copy(report_.reason_text, sizeof(report_.reason_text) - 1)] = '\0';
    };
    if (newest_.epoch == 0)
        throw failure(RPMA_MIRROR_E_NOT_FOUND, "set creation incomplete (run create again)");
    needed_ = needed_targets(newest_);
    const std::uint32_t missing = needed_ & ~answered();
    if (missing != 0 && !force)
        throw_incomplete(missing, RPMA_MIRROR_E_INCOMPLETE, "opening may lose data");
    overrides_ = missing != 0;
    needed_ &= answered() & ~changed();
    using replica::stamp_match;
    const bool own = local_is_newest();
    const stamp_match match = local_.match();
    if (own && (match == stamp_match::same || (needed_ == 0 && (force || match == stamp_match::unknown)))) {
        source_ = settings_.local_number;
        if (match == stamp_match::changed)
            sentence(RPMA_MIRROR_SOURCE_FORCED, "the local file was replaced or changed, and force was used");
        else
            sentence(RPMA_MIRROR_SOURCE_LOCAL_NEWEST, "the local copy was in sync in the newest record");
        return;
    }
    if (own && needed_ == 0)
        local_.reject_changed();
    if (needed_ == 0 && changed() != 0 && !force)
        throw failure(RPMA_MIRROR_E_CHANGED, settings_.names_of(changed()) +
                                                     ": was replaced or changed while no writer used it (open the set "
                                                     "on the machine that wrote last; "
                                                     "force uses the copy as it is)");
    // The newest record at the arbiter shows whether its writer continued alone: it then has no target in sync.
    const bool alone =
            !own && newest_.policy == replica::mirror_policy::availability && !newest_.closed && newest_ != arbiters_;
    if ((alone || needed_ == 0) && !force)
        throw failure(RPMA_MIRROR_E_UNFOUND,
                "copy " + std::to_string(newest_.writer_copy) +
                        ", which wrote last, may have continued alone (open the set on its machine; force uses another "
                        "copy and loses newer data)");
    overrides_ = missing != 0 || alone || needed_ == 0;
    const std::uint32_t candidates = needed_ != 0 ? needed_ : answered();
    if (candidates == 0)
        throw failure(RPMA_MIRROR_E_DOWN, "no copy that was in sync responds (start a target)");
    source_ = static_cast<unsigned>(std::countr_zero(candidates));
    each_copy(candidates, [&](unsigned copy) {
        if (is_newer(copies_[copy]->known.committed, copies_[source_]->known.committed))
            source_ = copy;
    });
    if (overrides_)
        sentence(RPMA_MIRROR_SOURCE_FORCED, "not all copies in sync responded, and force was used");
    else if (own)
        sentence(RPMA_MIRROR_SOURCE_LOCAL_CHANGED, "the local file may have changed while the set was closed");
    else
        sentence(RPMA_MIRROR_SOURCE_TARGET_NEWEST, "this target has the newest record, which the local copy lacks");
}

mirror::connected rpma_mirror::attach(remote_copy &c, channel &control, const deadline &until)
{
    replica::request r = make_promise_request(c, request_type::mirror_attach);
    r.mirror.lanes = settings_.lanes + 1;
    r.mirror.devices = devices_of(settings_.device);
    const replica::session_answer session = control.ask(r, until).session;
    if (session.lanes < settings_.lanes + 1)
        throw failure(RPMA_MIRROR_E_REJECTED, "target " + c.where.name() + ": " + std::to_string(session.lanes) +
                                                      " lanes available, " + std::to_string(settings_.lanes + 1) +
                                                      " required (see max-lanes in rpmemd.conf)");
    connected created{std::make_unique<replica::region>(), RPMA_MIRROR_LEVEL_VOLATILE};
    if (const int error = created.region->lost().open(); error != 0)
        throw system_failure("cannot create an event", error);
    replica::region::terms terms;
    terms.address = local_.address();
    terms.size = local_.length();
    terms.fetches = true;
    terms.depth = settings_.depth;
    terms.timeout_ms = settings_.operation_ms;
    terms.epoch = promise_.epoch;
    replica::error_text why;
    if (const int error = created.region->open(session, terms, until, &why); error != 0)
        throw failure(RPMA_MIRROR_E_CONNECTION, "target " + c.where.name() + ": " + why.c_str(), error);
    created.level = static_cast<rpma_mirror_level>(created.region->level());
    if (created.level < settings_.min_level)
        throw failure(RPMA_MIRROR_E_LEVEL_TOO_LOW, "target " + c.where.name() + ": persistence level too low");
    return created;
}

// Levels above RPMA_MIRROR_LEVEL_CPU_FLUSHED concern the network, which the local copy does not use.
void rpma_mirror::check_local_level() const
{
    if (local_.level() < std::min(settings_.min_level, RPMA_MIRROR_LEVEL_CPU_FLUSHED))
        throw failure(RPMA_MIRROR_E_LEVEL_TOO_LOW, "local copy: persistence level too low");
}

void rpma_mirror::attach_all(const deadline &until)
{
    each_in_parallel(answered(), scope::needed, until, [&](remote_copy &c, const deadline &within) {
        connected created = attach(c, *c.control, within);
        c.region = std::move(created.region);
        c.level = created.level;
    });
}

void rpma_mirror::commit_first_record(bool force)
{
    record first;
    first.epoch = promise_.epoch;
    first.writer = promise_.writer;
    first.writer_copy = settings_.local_number;
    first.in_sync = static_cast<std::uint16_t>(answered() | local_bit());
    first.members = static_cast<std::uint16_t>(newest_.members | first.in_sync);
    for (const target_settings &t : settings_.targets)
        first.members = static_cast<std::uint16_t>(first.members | 1U << t.copy);
    first.policy = settings_.policy;
    // A forced source might not have been in sync in the newest record, so its own consistency point is used.
    const bool has_newest = source_ == settings_.local_number || (newest_.in_sync >> source_ & 1) != 0;
    first.mark = has_newest ? newest_.mark : copies_[source_]->known.committed.mark;
    const auto needed = static_cast<std::uint16_t>(force ? 0 : needed_);
    const std::lock_guard hold(membership_);
    commit_record(first, needed, needed);
    set_roles(record_.in_sync & ~local_bit(), 0);
}

void rpma_mirror::open_set(void *hint, void *mapped, std::uint64_t length, bool force)
{
    const bool found = open_local_copy();
    connect_all(scope::needed, deadline(settings_.open_ms / 4 + 1));
    const std::uint64_t set_length = identify_set();
    // A rejection after this point stops the writer, so most conditions are checked before.
    ask_arbiter(false, deadline(settings_.open_ms / 4 + 1));
    choose_source(force);
    if (!found)
        create_local_copy(set_length);
    if (mapped == nullptr)
        local_.map(hint);
    else
        local_.adopt(mapped, length);
    check_local_level();
    // A step leaves the unused part of its share to the steps after it.
    const deadline until(settings_.open_ms / 2 + 1);
    acquire_epoch(false, until.share(3));
    replica::mirror_state own = local_.state();
    if (local_is_newest())
        own.committed = newest_;
    own.promised = promise_;
    local_.store(own);
    prepare_all(until.share(2));
    choose_source(force);
    report_.was_clean = newest_.closed;
    attach_all(until.share(1));
    choose_source(force);
    for (const auto &c : copies_)
        if (c)
            c->set_length(local_.length());
    resync_copies(force);
    choose_source(force);
    commit_first_record(force);
    report_.size = sizeof(report_);
    report_.source = source_;
    report_.responded = answered();
    report_.in_sync = record_.in_sync;
    report_.epoch = record_.epoch;
    report_.consistency_point = record_.mark;
    start_watching();
}

// Copies unflushed stores to the targets, too, so that all copies are equal before the clean record is committed.
void rpma_mirror::close(bool stored)
{
    stop_watching();
    if (const int code = terminal_error_; code != 0)
        throw failure(code, std::string("mirror failed before: ") + terminal_reason_.c_str());
    const std::lock_guard hold(membership_);
    if (stored) {
        if (const int code = check_flushable(); code != 0)
            throw failure(code, last_failure());
        if (local_.flush({0, local_.length()}) != 0)
            throw failure(RPMA_MIRROR_E_MEDIA, "cannot flush the local copy");
        local_.drain();
        // Evicts a lost target, like a flush.
        failed_copies failed;
        each_copy(roles_.load().awaited, [&](unsigned copy) {
            try {
                comparison job(*copies_[copy], direction::to_target, {});
                job.total = local_.length();
                compare(job, 0, job.total);
            } catch (const failure &problem) {
                if (problem.code() == RPMA_MIRROR_E_FENCED)
                    throw;
                failed.add(copy, problem.code() == RPMA_MIRROR_E_TIMEOUT ? ETIMEDOUT : ECONNRESET);
            }
        });
        evict(failed.bits, failed.errors);
    }
    record last = record_;
    last.closed = true;
    commit_record(last, static_cast<std::uint16_t>(record_.in_sync & ~local_bit()));
}
