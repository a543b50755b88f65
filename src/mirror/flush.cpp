// SPDX-License-Identifier: BSD-3-Clause
// The data path: no heap, no lock but that of the lane, and no system call but what the home copy needs.
#include "set.hpp"

#include <algorithm>
#include <cstring>

#include "failure.hpp"

using namespace mirror;
using replica::lane_request_kind;

int rpma_mirror::over() const noexcept
{
    if (const int code = over_; code != 0)
        return fail(code, "the mirror is over: %s", over_reason_.c_str());
    if (arbiter_->lost())
        return fail(RPMA_MIRROR_E_ARBITER, "the right to write has run out");
    return 0;
}

// The code with which a flush does not begin, or 0.
int rpma_mirror::unready() const noexcept
{
    if (const int code = over(); code != 0)
        return code;
    if (const int error = unregistered_; error != 0)
        return fail(RPMA_MIRROR_E_MEDIA,
                "since a page was repaired the home copy cannot be registered: %s: repair all that cannot be read",
                std::strerror(error));
    return 0;
}

int rpma_mirror::check_ranges(unsigned lane, const rpma_mirror_range *ranges, std::size_t n) const noexcept
{
    if (lane >= lanes_.size())
        return fail(RPMA_MIRROR_E_INVAL, "there is no lane %u: the set has %zu", lane, lanes_.size());
    if ((ranges == nullptr && n != 0) || n > RPMA_MIRROR_MAX_RANGES)
        return fail(RPMA_MIRROR_E_INVAL, "there are no ranges, or more than %d", RPMA_MIRROR_MAX_RANGES);
    for (std::size_t i = 0; i < n; ++i)
        if (!replica::range_fits({ranges[i].offset, ranges[i].length}, 0, home_.length()))
            return fail(RPMA_MIRROR_E_INVAL, "range %zu does not lie within the set", i);
    return 0;
}

// Each target gets what send() posts to a lane of it, first those that are waited for. tickets becomes what to wait
// for, 0: nothing.
template<class Send>
void rpma_mirror::post(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, const Send &send,
        const deadline &until, program_lane::tickets &tickets, failed_copies &failed) noexcept
{
    const auto send_awaited = [&](unsigned copy) {
        replica::region_lane &to = copies_[copy]->region->lane(lane);
        if (const int error = send(to); error != 0)
            failed.add(copy, error);
        else
            tickets[copy] = to.ticket();
    };
    const roles now = roles_;
    each_copy(now.awaited, send_awaited);
    each_copy(now.syncing | now.away, [&](unsigned copy) {
        remote_copy &c = *copies_[copy];
        for (std::size_t i = 0; i < n; ++i)
            c.mark({ranges[i].offset, ranges[i].length});
        // Either whoever begins to bring it level finds these marks, or this finds that the copy gets flushes.
        if ((roles_.load().away & c.bit()) != 0)
            return;
        // One connection carries flushes and what brings the copy level: nothing older overtakes them.
        if (!c.take_own_lane(until)) {
            failed.add(copy, ETIMEDOUT);
            return;
        }
        const std::lock_guard held(c.own_lane, std::adopt_lock);
        const roles then = roles_;
        if ((then.syncing & c.bit()) != 0)
            send(c.lane());
        else if ((then.awaited & c.bit()) != 0)
            send_awaited(copy);
    });
}

namespace
{

// All ranges, and the flush behind them, in one go.
class ranges_to_send
{
public:
    ranges_to_send(const rpma_mirror_range *ranges, std::size_t n, bool deep)
        : ranges_(ranges), n_(n), kind_(deep ? lane_request_kind::deep_flush : lane_request_kind::flush)
    {
    }

    int operator()(replica::region_lane &to) const noexcept
    {
        bool any = false;
        for (std::size_t i = 0; i < n_; ++i) {
            if (ranges_[i].length == 0)
                continue;
            any = true;
            if (const int error = to.flush({ranges_[i].offset, ranges_[i].length}); error != 0)
                return error;
        }
        return any ? to.submit(kind_) : 0;
    }

private:
    const rpma_mirror_range *const ranges_;
    const std::size_t n_;
    const lane_request_kind kind_;
};

} // namespace

int rpma_mirror::flush_home(const rpma_mirror_range *ranges, std::size_t n, bool deep) noexcept
{
    int error = 0;
    for (std::size_t i = 0; i < n && error == 0; ++i) {
        const range r{ranges[i].offset, ranges[i].length};
        if (r.length != 0)
            error = deep ? home_.deep_flush(r) : home_.flush(r);
    }
    home_.drain();
    return error;
}

// The system does not tell which of the pages it could not write back.
int rpma_mirror::home_failed(int error) noexcept
{
    // A function of the program that flushes hears of it by the code alone.
    guarded([&] {
        membership_.refuse_holder();
        rpma_mirror_error failed = make_error(settings_.home_copy, RPMA_MIRROR_E_MEDIA, error);
        failed.length = home_.length();
        const std::lock_guard hold(membership_);
        events_.tell(RPMA_MIRROR_EVENT_MEDIA, settings_.home_copy, record_, failed);
    });
    return fail(RPMA_MIRROR_E_MEDIA, "the home copy cannot be written back: %s", std::strerror(error));
}

// All targets work meanwhile, so that each is waited for in turn.
void rpma_mirror::await(
        unsigned lane, const program_lane::tickets &tickets, const deadline &until, failed_copies &failed) noexcept
{
    for (unsigned copy = 0; copy < tickets.size(); ++copy) {
        const roles now = roles_;
        if (tickets[copy] == 0 || (now.awaited >> copy & 1) == 0)
            continue;
        if (const int error = copies_[copy]->region->lane(lane).wait(tickets[copy], until); error != 0)
            failed.add(copy, error);
    }
}

int rpma_mirror::outcome(const failed_copies &failed, const rpma_mirror_range *ranges, std::size_t n) noexcept
{
    if (failed.bits == 0)
        return over();
    const int code = evict(failed);
    if (code == RPMA_MIRROR_E_BUSY)
        return code;
    {
        const std::lock_guard hold(membership_);
        each_copy(failed.bits, [&](unsigned copy) {
            // Another thread may have dropped it.
            for (std::size_t i = 0; copies_[copy] && i < n; ++i)
                copies_[copy]->mark({ranges[i].offset, ranges[i].length});
        });
    }
    return code == 0 ? over() : code;
}

int rpma_mirror::flush_once(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, bool deep) noexcept
{
    program_lane::tickets tickets{};
    failed_copies failed;
    int own = 0;
    {
        const std::lock_guard hold(lanes_[lane].lock);
        const deadline until(settings_.operation_ms);
        post(lane, ranges, n, ranges_to_send(ranges, n, deep), until, tickets, failed);
        own = flush_home(ranges, n, deep);
        await(lane, tickets, until, failed);
    }
    const int result = outcome(failed, ranges, n);
    return result != 0 || own == 0 ? result : home_failed(own);
}

int rpma_mirror::flush(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags) noexcept
{
    const bool deep = (flags & RPMA_MIRROR_F_DEEP) != 0;
    if (const int code = unready(); code != 0 || n == 0)
        return code;
    ++counted_.flushes;
    counted_.ranges += n;
    for (std::size_t i = 0; i < n; ++i)
        counted_.bytes += ranges[i].length;
    if ((flags & RPMA_MIRROR_F_LAST_RANGE_ORDERED) == 0 || n == 1)
        return flush_once(lane, ranges, n, deep);
    const int first = flush_once(lane, ranges, n - 1, deep);
    return first != 0 ? first : flush_once(lane, ranges + n - 1, 1, deep);
}

int rpma_mirror::flush_start(
        unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags, std::uint64_t *ticket) noexcept
{
    program_lane &used = lanes_[lane];
    if (const int code = unready(); code != 0)
        return code;
    const bool deep = (flags & RPMA_MIRROR_F_DEEP) != 0;
    if (used.started >= program_lane::most_tickets) {
        const int oldest = flush_wait(lane, used.started - program_lane::most_tickets + 1, -1);
        if (oldest != 0)
            return oldest;
    }
    ++counted_.flushes;
    counted_.ranges += n;
    failed_copies failed;
    int own = 0;
    {
        const std::lock_guard hold(used.lock);
        program_lane::tickets &tickets = used.under_way[used.started % program_lane::most_tickets];
        tickets = {};
        const deadline until(settings_.operation_ms);
        post(lane, ranges, n, ranges_to_send(ranges, n, deep), until, tickets, failed);
        own = flush_home(ranges, n, deep);
    }
    const int result = outcome(failed, ranges, n);
    if (result != 0 || own != 0)
        return result != 0 ? result : home_failed(own);
    *ticket = ++used.started;
    return 0;
}

int rpma_mirror::flush_wait(unsigned lane, std::uint64_t ticket, int timeout_ms) noexcept
{
    program_lane &used = lanes_[lane];
    if (ticket == 0 || ticket > used.started)
        return fail(RPMA_MIRROR_E_INVAL, "there is no ticket %zu", static_cast<std::size_t>(ticket));
    if (const int code = over(); code != 0)
        return code;
    if (used.started - ticket >= program_lane::most_tickets)
        return 0; // flush_start() has waited for it
    const bool patient = timeout_ms < 0 || timeout_ms >= settings_.operation_ms;
    failed_copies failed;
    {
        const std::lock_guard hold(used.lock);
        const deadline until(patient ? settings_.operation_ms : std::max(timeout_ms, 1));
        await(lane, used.under_way[(ticket - 1) % program_lane::most_tickets], until, failed);
    }
    bool late = false;
    each_copy(failed.bits, [&](unsigned copy) {
        if (!patient && failed.errors[copy] == ETIMEDOUT) {
            late = true;
            failed.bits &= ~(1U << copy);
        }
    });
    if (const int code = outcome(failed, nullptr, 0); code != 0)
        return code;
    return late ? fail(RPMA_MIRROR_E_TIMEOUT, "the flush is still under way") : 0;
}

int rpma_mirror::atomic_write(unsigned lane, std::uint64_t offset, std::uint64_t value) noexcept
{
    program_lane &used = lanes_[lane];
    if (const int code = unready(); code != 0)
        return code;
    if (used.started != 0)
        if (const int code = flush_wait(lane, used.started, -1); code != 0)
            return code;
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t *>(home_.address() + offset)).store(value);
    const rpma_mirror_range all{offset, sizeof(value)};
    program_lane::tickets tickets{};
    failed_copies failed;
    int own = 0;
    {
        const std::lock_guard hold(used.lock);
        const deadline until(settings_.operation_ms);
        char bytes[sizeof(value)];
        std::memcpy(bytes, &value, sizeof(value));
        const auto send = [&](replica::region_lane &to) {
            const int error = to.flush8(offset, bytes);
            return error != 0 ? error : to.submit(lane_request_kind::flush);
        };
        post(lane, &all, 1, send, until, tickets, failed);
        own = flush_home(&all, 1, false);
        await(lane, tickets, until, failed);
    }
    const int result = outcome(failed, &all, 1);
    return result != 0 || own == 0 ? result : home_failed(own);
}

int rpma_mirror::read(unsigned lane, unsigned copy, void *to, range r) noexcept
{
    if (copy == settings_.home_copy) {
        std::memcpy(to, home_.address() + r.offset, r.length);
        return 0;
    }
    if (const int code = over(); code != 0)
        return code;
    failed_copies failed;
    {
        const std::lock_guard hold(lanes_[lane].lock);
        const roles now = roles_;
        if (copy >= copies_.size() || (now.awaited >> copy & 1) == 0)
            return fail(RPMA_MIRROR_E_STALE, "copy %u is not in sync", copy);
        if (const int error = copies_[copy]->region->lane(lane).read(to, r); error != 0)
            failed.add(copy, error);
    }
    if (failed.bits == 0)
        return 0;
    const int code = evict(failed);
    return code != 0 ? code : fail(code_of_link(failed.errors[copy]), "copy %u is lost, and was dropped", copy);
}
