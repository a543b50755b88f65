// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <utility>

#include "error.hpp"

namespace rpma::rdma
{

// Owns one provider object. close() reports a failed destroy; the destructor drops that answer and keeps errno.
template<class T, errc (*Destroy)(T *)>
class handle
{
public:
    handle() = default;
    explicit handle(T *object) : object_(object) {}
    handle(handle &&other) noexcept : object_(other.release()) {}
    handle &operator=(handle &&other) noexcept
    {
        if (this != &other) {
            drop();
            object_ = other.release();
        }
        return *this;
    }
    ~handle() { drop(); }

    T *get() const { return object_; }
    T *operator->() const { return object_; }
    explicit operator bool() const { return object_ != nullptr; }
    T *release() { return std::exchange(object_, nullptr); }

    [[nodiscard]] errc close()
    {
        T *const object = release();
        return object == nullptr ? errc::ok : Destroy(object);
    }

private:
    void drop()
    {
        const errno_guard keep_errno;
        (void)close();
    }

    T *object_ = nullptr;
};

} // namespace rpma::rdma
