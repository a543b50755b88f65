// SPDX-License-Identifier: BSD-3-Clause
#include "growth.hpp"

#include <vector>

#include "attach.hpp"
#include "resync.hpp"
#include "step.hpp"

using namespace mirror;

namespace
{

constexpr const char *unchanged = ": the length of the set is unchanged";

// Claims all copies, so that no resync runs and no copy is added or removed.
class exclusive_growth
{
public:
    explicit exclusive_growth(set_parts &of) : parts_(of)
    {
        std::vector<unsigned> existing;
        {
            const std::lock_guard guard(of.members);
            if (of.growing)
                throw failure(RPMA_MIRROR_E_BUSY, "set: another call is increasing its length (try again later)");
            of.growing = true;
            for (const auto &c : of.copies)
                if (c)
                    existing.push_back(c->where.copy);
        }
        try {
            for (const unsigned copy : existing)
                claim(copy);
        } catch (...) {
            end();
            throw;
        }
    }
    ~exclusive_growth() { end(); }
    exclusive_growth(const exclusive_growth &) = delete;
    exclusive_growth &operator=(const exclusive_growth &) = delete;

private:
    void claim(unsigned copy)
    {
        try {
            claims_.push_back(std::make_unique<exclusive_copy>(parts_.members, parts_.copies, copy, nullptr));
        } catch (const failure &error) {
            // Another thread removed the copy.
            if (error.code() != RPMA_MIRROR_E_NOT_FOUND)
                throw;
        }
    }
    void end()
    {
        const std::lock_guard guard(parts_.members);
        parts_.growing = false;
    }

    set_parts &parts_;
    std::vector<std::unique_ptr<exclusive_copy>> claims_;
};

} // namespace

void mirror::check_new_length(std::uint64_t length)
{
    if (length == 0 || length % replica::page_size != 0)
        throw failure(RPMA_MIRROR_E_INVAL, "the length is not a multiple of 4096");
}

grower::grower(set_parts &of, flusher &lanes)
    : parts_(of), settings_(of.configured), membership_(of.members), local_(of.local), copies_(of.copies),
      flusher_(lanes)
{
}

// Calls f for copies, given as bits, concurrently. Returns their failures.
template<class F>
grower::failures grower::call(std::uint32_t copies, F f)
{
    failures found;
    group::run_concurrently(copies, deadline(settings_.open_ms), 0, [&](unsigned copy, const deadline &within) {
        try {
            f(*copies_[copy], within);
        } catch (const failure &error) {
            found[copy] = error;
        } catch (const std::exception &error) {
            found[copy] = failure(RPMA_MIRROR_E_SYSTEM, error.what());
        }
        return !found[copy];
    });
    return found;
}

// Returns the targets that flushes wait for. The caller must hold the membership lock.
std::uint32_t grower::synced() const
{
    return membership_.now().awaited & membership_.synced_targets();
}

std::uint32_t grower::begin(std::uint64_t length)
{
    const std::lock_guard guard(membership_);
    throw_if_failed(membership_.check_usable());
    if (length < local_.length())
        throw failure(RPMA_MIRROR_E_INVAL, "length of the set: cannot shrink from " + std::to_string(local_.length()) +
                                                   " to " + std::to_string(length) + " bytes");
    local_.check_extension(length);
    return synced();
}

// Makes the parts of targets long enough. A target that is evicted during this grows when it is resynchronized.
void grower::reserve(std::uint32_t copies, std::uint64_t length, channels &targets)
{
    const replica::tls_keys key = read_key(settings_.key_file);
    const failures found = call(copies, [&](remote_copy &c, const deadline &within) {
        auto &control = targets[c.where.copy];
        control = std::make_unique<channel>(c.where, key, within);
        resize(membership_, c, *control, length, true, within);
    });
    const std::lock_guard guard(membership_);
    throw_if_failed(membership_.check_usable());
    each_copy(synced(), [&](unsigned copy) {
        if (!found[copy])
            return;
        end_if_fenced(*found[copy], copy);
        throw failure(found[copy]->code(), std::string(found[copy]->what()) + unchanged, found[copy]->system());
    });
}

// Checked first: if this machine cannot register the memory, all targets would be lost.
void grower::check_registration(std::uint64_t length) const
{
    each_copy(synced(), [&](unsigned copy) {
        replica::error_text reason;
        if (const int error = copies_[copy]->region->check_registration(length, &reason); error != 0)
            throw failure(RPMA_MIRROR_E_SYSTEM, std::string(reason.c_str()) + unchanged, error);
    });
}

void grower::add_failed(std::uint32_t copies, const failures &of, failed_copies &to) const
{
    each_copy(copies, [&](unsigned copy) {
        if (!of[copy])
            return;
        const int error = of[copy]->code() == RPMA_MIRROR_E_TIMEOUT ? ETIMEDOUT : ECONNRESET;
        copies_[copy]->region->lost().declare(error);
        to.add(copy, error);
    });
}

void grower::end_if_fenced(const failure &error, unsigned copy)
{
    if (error.code() == RPMA_MIRROR_E_FENCED)
        membership_.fail_with(error.code(), error.what(), copy);
}

// Connects the lanes of the targets with the new length, while no flush is in progress. A target that fails is evicted.
// Calls no function of the program, which could flush.
void grower::commit(const failures &resized)
{
    const std::lock_guard guard(membership_);
    failed_copies failed;
    add_failed(synced(), resized, failed);
    std::array<connected, replica::max_copies> created;
    failures unconnected;
    flusher_.with_drained_lanes(synced() & ~failed.bits, [&](const failed_copies &undrained) {
        each_copy(undrained.bits, [&](unsigned copy) { failed.add(copy, undrained.errors[copy]); });
        local_.add_extension();
        for (const auto &c : copies_)
            if (c)
                c->set_length(local_.length());
        const std::uint32_t connecting = synced() & ~failed.bits;
        unconnected = call(connecting, [&](remote_copy &c, const deadline &within) {
            created[c.where.copy] = attach(parts_, c, *c.control, local_.length(), within);
        });
        each_copy(connecting, [&](unsigned copy) {
            remote_copy &c = *copies_[copy];
            if (unconnected[copy])
                return;
            flusher_.drop_tickets(c);
            std::swap(c.region, created[copy].region);
            c.level = created[copy].level;
        });
        add_failed(connecting, unconnected, failed);
    });
    for (const failures &found : {std::cref(resized), std::cref(unconnected)})
        each_copy(failed.bits, [&](unsigned copy) {
            if (found[copy])
                end_if_fenced(*found[copy], copy);
        });
    if (failed.bits != 0)
        throw_if_failed(membership_.evict_or_fail(failed));
    throw_if_failed(membership_.check_usable());
    parts_.published.publish(RPMA_MIRROR_EVENT_GROWN, settings_.local_number, membership_.record());
}

void grower::grow(std::uint64_t length)
{
    check_new_length(length);
    membership_.reject_reentry();
    const exclusive_growth claim(parts_);
    const std::uint32_t copies = begin(length);
    if (length == local_.length())
        return;
    channels targets;
    reserve(copies, length, targets);
    local_.extend(length, membership_);
    {
        const std::lock_guard guard(membership_);
        throw_if_failed(membership_.check_usable());
        check_registration(length);
        // The next opening completes the growth if this copy is its source.
        local_.set_length(length);
    }
    commit(call(copies, [&](remote_copy &c, const deadline &within) {
        if (targets[c.where.copy])
            resize(membership_, c, *targets[c.where.copy], length, false, within);
    }));
}
