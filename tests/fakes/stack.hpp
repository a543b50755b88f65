// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fake_rdma.h"

// State shared by the parts of the fake stack: objects and their dependencies, the call log, injected failures.
namespace fake
{

struct object {
    explicit object(fake_kind its_kind) : kind(its_kind) {}
    virtual ~object() = default;

    const fake_kind kind;
    unsigned long serial = 0;
    std::set<object *> parents;
    std::set<object *> children;
    // Its destruction failed, so it does not count as a leak.
    bool lost = false;
};

struct stack {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<const void *, std::unique_ptr<object>> objects;
    unsigned long next_serial = 1;

    fake_traits device{};
    fake_arguments seen{};
    std::deque<fake_work> work;
    std::string problems;
    std::string calls;
    std::string answer;

    unsigned fail_in = 0;
    bool fail_persistently = false;
    int fail_errno = 0;
    std::string fail_only;
    std::string failed_call;

    void problem(const std::string &text) { problems += text + "; "; }

    // Returns the object behind a provider pointer; an invalid pointer is an error of the caller.
    object *find(const void *handle, const char *caller);
    object *peek(const void *handle) const;
    void add(const void *handle, std::unique_ptr<object> created);
    // Adds the object by its address for the library, and returns that.
    template<typename Object>
    auto *add_face(std::unique_ptr<Object> created)
    {
        auto *const face = &created->face;
        add(face, std::move(created));
        return face;
    }
    void depend(object *child, const void *parent, const char *caller);
    void release(object *child, const void *parent);
    void erase(const void *handle);
};

stack &the();

// Returns the device's context without locking, for calls that run while others use it.
ibv_context *context();

// One call of the library to the stack. It holds the lock, is logged, and fails if the test selected it.
class call
{
public:
    enum class kind {
        fallible,
        infallible
    };

    explicit call(const char *name, kind which = kind::fallible);

    const char *name() const { return name_; }
    // Errno with which the call must fail, or 0 if it continues.
    int error() const { return error_; }
    std::unique_lock<std::mutex> &lock() { return lock_; }

    template<class T>
    T *find(const void *handle)
    {
        return static_cast<T *>(the().find(handle, name_));
    }

    // Destroys the object. Returns an errno value if the call must fail or another object depends on this one,
    // otherwise 0.
    int destroy(const void *handle);

private:
    std::unique_lock<std::mutex> lock_;
    const char *name_;
    int error_ = 0;
};

// Error conventions of the two libraries.
inline int minus_one(int error)
{
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

template<class T>
T *null(int error)
{
    errno = error;
    return nullptr;
}

// A semaphore eventfd: readable while its count is not 0. Its user decides whether reads block.
class bell
{
public:
    bell();
    ~bell();
    bell(const bell &) = delete;
    bell &operator=(const bell &) = delete;

    int fd() const { return fd_; }
    void ring();
    // Decrements the count. Returns 0 or an errno value. May block.
    int wait();
    void unring();

private:
    int fd_;
};

// Waits without the lock until the queue of the bell has an entry. Returns 0 or an errno value.
template<class T>
int await_entry(call &c, bell &rung, const std::deque<T> &queue)
{
    for (;;) {
        c.lock().unlock();
        if (const int error = rung.wait(); error != 0)
            return error;
        c.lock().lock();
        if (!queue.empty())
            return 0;
    }
}

// Waits until the count is 0. A real provider would wait forever, so exceeding the time limit is an error of the
// library.
void await_acknowledged(call &c, const unsigned &unacknowledged);

} // namespace fake
