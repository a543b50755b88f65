// SPDX-License-Identifier: BSD-3-Clause
#include "events.hpp"

#include <algorithm>
#include <sys/eventfd.h>

namespace mirror
{

namespace
{

constexpr std::size_t max_events = 256;
constexpr std::size_t max_errors = 64;

} // namespace

rpma_mirror_error make_error(unsigned copy, int code, int system)
{
    rpma_mirror_error e{};
    e.size = sizeof(e);
    e.copy = copy;
    e.code = code;
    e.os_errno = system;
    e.contained = 1;
    e.live = 1;
    switch (code) {
    case 0:
        e.kind = RPMA_MIRROR_ERROR_NONE;
        break;
    case RPMA_MIRROR_E_TIMEOUT:
        e.kind = RPMA_MIRROR_ERROR_TIMEOUT;
        break;
    case RPMA_MIRROR_E_MEDIA:
        e.kind = RPMA_MIRROR_ERROR_MEDIA;
        break;
    case RPMA_MIRROR_E_VERIFY:
        e.kind = RPMA_MIRROR_ERROR_VERIFY;
        break;
    case RPMA_MIRROR_E_FENCED:
        e.kind = RPMA_MIRROR_ERROR_FENCED;
        e.live = 0;
        break;
    case RPMA_MIRROR_E_EVICTION_REFUSED:
        e.kind = RPMA_MIRROR_ERROR_REJECTED;
        e.live = 0;
        break;
    case RPMA_MIRROR_E_CONNECTION:
        e.kind = RPMA_MIRROR_ERROR_CONNECTION;
        break;
    default:
        e.kind = RPMA_MIRROR_ERROR_REJECTED;
    }
    return e;
}

events::events(const settings &of) : settings_(of), readable_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    if (!readable_.valid())
        throw system_failure("cannot create an event");
}

void events::publish(rpma_mirror_event_type type, unsigned copy, const replica::mirror_record &record,
        const rpma_mirror_error &error)
{
    rpma_mirror_event created{};
    created.size = sizeof(created);
    created.type = type;
    created.copy = copy;
    created.epoch = record.epoch;
    created.version = record.version;
    created.error = error;
    created.error.size = sizeof(created.error);
    {
        const std::lock_guard guard(lock_);
        if (waiting_.size() == max_events)
            waiting_.pop_front();
        waiting_.push_back(created);
        eventfd_write(readable_.get(), 1);
        if (error.kind != RPMA_MIRROR_ERROR_NONE) {
            if (errors_.size() == max_errors)
                errors_.pop_front();
            errors_.push_back(created.error);
        }
    }
    if (settings_.event != nullptr)
        settings_.event(settings_.event_context, &created);
}

bool events::next(rpma_mirror_event &to)
{
    const std::lock_guard guard(lock_);
    if (waiting_.empty())
        return false;
    to = waiting_.front();
    waiting_.pop_front();
    if (eventfd_t count = 0; waiting_.empty())
        eventfd_read(readable_.get(), &count);
    return true;
}

std::size_t events::errors(rpma_mirror_error *to, std::size_t max)
{
    const std::lock_guard guard(lock_);
    const std::size_t count = std::min(max, errors_.size());
    std::copy_n(errors_.begin(), count, to);
    return count;
}

bool events::has_error(const rpma_mirror_error &like)
{
    const std::lock_guard guard(lock_);
    return std::ranges::any_of(errors_, [&](const rpma_mirror_error &e) {
        return e.copy == like.copy && e.code == like.code && e.offset == like.offset && e.length == like.length;
    });
}

void events::forget_errors(unsigned copy)
{
    const std::lock_guard guard(lock_);
    std::erase_if(errors_, [copy](const rpma_mirror_error &e) { return e.copy == copy; });
}

void events::forget_errors(unsigned copy, replica::range repaired)
{
    const std::lock_guard guard(lock_);
    std::erase_if(errors_, [&](const rpma_mirror_error &e) {
        return e.copy == copy && e.length != 0 && e.offset >= repaired.offset &&
               e.offset + e.length <= repaired.offset + repaired.length;
    });
}

} // namespace mirror
