// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <dlfcn.h>

// Ends a function with a jump, in all builds: the called function then has the same caller.
#ifdef __clang__
#define JUMP_TO [[clang::musttail]] return
#define JUMPS
#else
#define JUMP_TO return
#define JUMPS __attribute__((optimize("O2")))
#endif

namespace softrdma::sysfs
{

// Function of the C library, or of a preloaded library, that this library replaces for programs.
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
