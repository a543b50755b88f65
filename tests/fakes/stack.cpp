// SPDX-License-Identifier: BSD-3-Clause
#include "stack.hpp"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace fake
{

stack &the()
{
    static stack only;
    return only;
}

object *stack::peek(const void *handle) const
{
    const auto found = objects.find(handle);
    return found == objects.end() ? nullptr : found->second.get();
}

object *stack::find(const void *handle, const char *caller)
{
    object *const found = peek(handle);
    if (found == nullptr)
        problem(std::string(caller) + " used a dead or foreign object");
    return found;
}

void stack::add(const void *handle, std::unique_ptr<object> created)
{
    created->serial = next_serial++;
    objects[handle] = std::move(created);
}

void stack::depend(object *child, const void *parent, const char *caller)
{
    if (object *const found = find(parent, caller)) {
        found->children.insert(child);
        child->parents.insert(found);
    }
}

void stack::release(object *child, const void *parent)
{
    if (object *const found = peek(parent)) {
        found->children.erase(child);
        child->parents.erase(found);
    }
}

void stack::erase(const void *handle)
{
    object *const dying = peek(handle);
    for (object *parent : dying->parents)
        parent->children.erase(dying);
    for (object *child : dying->children)
        child->parents.erase(dying);
    objects.erase(handle);
}

call::call(const char *name, kind which) : lock_(the().mutex), name_(name)
{
    stack &s = the();
    s.calls += s.calls.empty() ? name : std::string(" ") + name;
    if (which == kind::infallible || s.fail_in == 0 || (!s.fail_only.empty() && s.fail_only != name))
        return;
    if (s.fail_in > 1) {
        --s.fail_in;
        return;
    }
    error_ = s.fail_errno++;
    if (s.failed_call.empty())
        s.failed_call = name;
    if (!s.fail_persistently)
        s.fail_in = 0;
}

int call::destroy(const void *handle)
{
    object *const dying = find<object>(handle);
    if (dying == nullptr)
        return EINVAL;
    if (error_ != 0) {
        dying->lost = true;
        return error_;
    }
    if (!dying->children.empty()) {
        const auto is_lost = [](const object *child) { return child->lost; };
        dying->lost = std::all_of(dying->children.begin(), dying->children.end(), is_lost);
        return EBUSY;
    }
    the().erase(handle);
    return 0;
}

bell::bell() : fd_(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}

bell::~bell()
{
    close(fd_);
}

void bell::ring()
{
    eventfd_write(fd_, 1);
}

int bell::wait()
{
    eventfd_t one;
    return eventfd_read(fd_, &one) == 0 ? 0 : errno;
}

void bell::unring()
{
    const int flags = fcntl(fd_, F_GETFL);
    fcntl(fd_, F_SETFL, flags | O_NONBLOCK);
    wait();
    fcntl(fd_, F_SETFL, flags);
}

void await_acknowledged(call &c, const unsigned &unacknowledged)
{
    const auto all = [&] { return unacknowledged == 0; };
    if (!the().changed.wait_for(c.lock(), std::chrono::seconds(5), all))
        the().problem(std::string(c.name()) + " would wait forever for an acknowledgement");
}

} // namespace fake
