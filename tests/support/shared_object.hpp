// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>
#include <new>
#include <sys/mman.h>

// Object in memory that this process shares with its children. It is not destroyed, only unmapped.
template<class T>
class shared_object
{
public:
    shared_object()
    {
        void *const memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            std::abort();
        object_ = new (memory) T{};
    }
    ~shared_object() { munmap(object_, sizeof(T)); }
    shared_object(const shared_object &) = delete;
    shared_object &operator=(const shared_object &) = delete;

    T *operator->() const { return object_; }
    T &operator*() const { return *object_; }

private:
    T *object_;
};
