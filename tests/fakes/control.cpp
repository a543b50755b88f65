// SPDX-License-Identifier: BSD-3-Clause
#include "stack.hpp"

#include <algorithm>

// Functions that tests call to control the fake stack.
namespace
{

using fake::object;
using fake::the;

constexpr const char *kind_names[FAKE_KINDS] = {"protection domain", "memory region", "completion channel",
        "completion queue", "shared receive queue", "queue pair", "identifier", "event channel", "address list",
        "connection event"};

std::vector<std::pair<const void *, object *>> by_age(fake_kind kind)
{
    std::vector<std::pair<const void *, object *>> found;
    for (const auto &[handle, entry] : the().objects)
        if (entry->kind == kind && !entry->lost)
            found.emplace_back(handle, entry.get());
    std::sort(found.begin(), found.end(), [](auto &a, auto &b) { return a.second->serial < b.second->serial; });
    return found;
}

using guard = std::lock_guard<std::mutex>;

} // namespace

extern "C" {

struct fake_traits *fake_device(void)
{
    return &the().device;
}

void fake_make_native(void)
{
    the().device.capabilities =
            1ULL << FAKE_CAP_FLUSH_GLOBAL | 1ULL << FAKE_CAP_FLUSH_PERSISTENT | 1ULL << FAKE_CAP_ATOMIC_WRITE;
}

void fake_reset(void)
{
    const guard locked(the().mutex);
    auto &s = the();
    s.objects.clear();
    s.work.clear();
    s.problems.clear();
    s.calls.clear();
    s.seen = {};
    s.fail_in = 0;
    s.fail_only.clear();
    s.failed_call.clear();
    s.device = {};
    s.device.ports = 1;
    s.device.max_msg_sz[0] = 1U << 31;
    s.device.addresses = 1;
}

unsigned fake_count(enum fake_kind kind)
{
    const guard locked(the().mutex);
    return static_cast<unsigned>(by_age(kind).size());
}

void *fake_live(enum fake_kind kind, unsigned index)
{
    const guard locked(the().mutex);
    const auto found = by_age(kind);
    return index < found.size() ? const_cast<void *>(found[index].first) : nullptr;
}

const char *fake_problems(void)
{
    const guard locked(the().mutex);
    auto &s = the();
    s.answer = s.problems;
    for (int kind = 0; kind < FAKE_KINDS; ++kind)
        if (const auto left = by_age(static_cast<fake_kind>(kind)); !left.empty())
            s.answer += std::to_string(left.size()) + " " + kind_names[kind] + " left over; ";
    return s.answer.c_str();
}

const char *fake_calls(void)
{
    const guard locked(the().mutex);
    return the().calls.c_str();
}

void fake_forget_calls(void)
{
    const guard locked(the().mutex);
    the().calls.clear();
}

void fake_fail_call(unsigned n, int error, bool persistent)
{
    const guard locked(the().mutex);
    auto &s = the();
    s.fail_in = n;
    s.fail_errno = error;
    s.fail_persistently = persistent;
    if (n == 0)
        s.fail_only.clear();
    else
        s.failed_call.clear();
}

void fake_fail_only(const char *name)
{
    const guard locked(the().mutex);
    the().fail_only = name == nullptr ? "" : name;
}

const char *fake_failed_call(void)
{
    const guard locked(the().mutex);
    return the().failed_call.empty() ? nullptr : the().failed_call.c_str();
}

const struct fake_arguments *fake_seen(void)
{
    return &the().seen;
}

unsigned fake_work_count(void)
{
    const guard locked(the().mutex);
    return static_cast<unsigned>(the().work.size());
}

const struct fake_work *fake_work_at(unsigned index)
{
    const guard locked(the().mutex);
    return &the().work.at(index);
}

const struct fake_work *fake_last_work(void)
{
    const guard locked(the().mutex);
    return the().work.empty() ? nullptr : &the().work.back();
}

} // extern "C"
