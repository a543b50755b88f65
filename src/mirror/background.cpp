// SPDX-License-Identifier: BSD-3-Clause
#include "background.hpp"

#include <algorithm>

#include "failure.hpp"
#include "step.hpp"

namespace mirror
{

namespace
{

// Maximum pauses between attempts; the pause doubles with each attempt. The first one applies while the target cannot
// be resynchronized, the second one if it is repeatedly evicted after it joined, because evictions delay flushes.
constexpr int max_failed_pause_ms = 8000, max_joined_pause_ms = 64'000;
constexpr std::int64_t stable_ms = 120'000; // time in sync after which the pause is the shortest one again

} // namespace

background_resync::background_resync(set_parts &of, resyncer &with)
    : settings_(of.configured), membership_(of.members), copies_(of.copies), resyncer_(with)
{
}

// Returns false for a copy that another thread has claimed, or whose resync the program canceled.
bool background_resync::is_due(unsigned copy, attempts &of) const
{
    const std::lock_guard guard(membership_);
    const auto &c = copies_[copy];
    if (c && (membership_.now().away & c->bit()) != 0)
        return !c->busy && !c->canceled && replica::now_ms() >= of.next_ms;
    if (!c || replica::now_ms() >= of.next_ms + stable_ms)
        of.pause_ms = min_pause_ms;
    return false;
}

void background_resync::start(unsigned copy, attempts &of)
{
    if (of.thread.joinable())
        of.thread.join();
    auto cancel = std::make_unique<replica::loss>();
    if (const int error = cancel->open(); error != 0)
        throw system_failure("cannot create an event", error);
    of.cancel = std::move(cancel);
    of.running = true;
    try {
        of.thread = quiet_thread([this, copy, &of] {
            const limits within{settings_.background_rate, nullptr, nullptr, of.cancel.get(), true};
            const int code = guarded([&] { resyncer_.resync(copy, within); });
            of.next_ms = replica::now_ms() + of.pause_ms;
            of.pause_ms = std::min(2 * of.pause_ms, code == 0 ? max_joined_pause_ms : max_failed_pause_ms);
            of.running = false;
        });
    } catch (...) {
        of.running = false;
        throw;
    }
}

void background_resync::poll()
{
    if (!settings_.background || membership_.terminal_error() != 0)
        return;
    for (unsigned copy = 0; copy < attempts_.size(); ++copy)
        if (!attempts_[copy].running && is_due(copy, attempts_[copy]))
            start(copy, attempts_[copy]);
}

void background_resync::stop()
{
    for (const attempts &each : attempts_)
        if (each.cancel)
            each.cancel->declare(ECANCELED);
    for (attempts &each : attempts_)
        if (each.thread.joinable())
            each.thread.join();
}

} // namespace mirror
