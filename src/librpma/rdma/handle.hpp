// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <utility>

#include "rdma/library.hpp"

namespace rpma::rdma
{

// Owns one object of a library. close() reports a failed destroy; the destructor ignores it and preserves errno.
template<class T, errc (*Destroy)(const library &, T *)>
class handle
{
public:
    handle() = default;
    handle(const rdma::library &library, T *object) : library_(&library), object_(object) {}
    handle(handle &&other) noexcept : library_(other.library_), object_(other.release()) {}
    handle &operator=(handle &&other) noexcept
    {
        if (this != &other) {
            drop();
            library_ = other.library_;
            object_ = other.release();
        }
        return *this;
    }
    ~handle() { drop(); }

    T *get() const { return object_; }
    T *operator->() const { return object_; }
    const rdma::library &library() const { return *library_; }
    explicit operator bool() const { return object_ != nullptr; }
    T *release() { return std::exchange(object_, nullptr); }

    [[nodiscard]] errc close()
    {
        T *const object = release();
        return object == nullptr ? errc::ok : Destroy(*library_, object);
    }

private:
    void drop()
    {
        const errno_guard keep_errno;
        (void)close();
    }

    const rdma::library *library_ = nullptr;
    T *object_ = nullptr;
};

} // namespace rpma::rdma
