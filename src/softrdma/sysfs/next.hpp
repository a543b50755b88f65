// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <dlfcn.h>

namespace softrdma::sysfs
{

// Function of the C library, or of a preloaded library in front of it, that this library replaces for programs.
template<typename Function>
class next_function
{
public:
    explicit constexpr next_function(const char *name) noexcept : name_(name) {}
    Function *get() noexcept
    {
        Function *found = found_.load(std::memory_order_relaxed);
        if (found == nullptr) {
            found = reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name_));
            found_.store(found, std::memory_order_relaxed);
        }
        return found;
    }

private:
    const char *name_;
    std::atomic<Function *> found_{nullptr};
};

} // namespace softrdma::sysfs
