// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdlib>

// Base of every heap object of a library that has no C++ runtime: new over malloc, NULL when memory is out.
struct heap_object {
    static void *operator new(std::size_t size) noexcept { return std::malloc(size); }
    static void operator delete(void *ptr) noexcept { std::free(ptr); }
};
