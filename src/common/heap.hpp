// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdlib>

// Base class of heap objects without the C++ runtime: `new` calls malloc and returns NULL on error.
struct heap_object {
    static void *operator new(std::size_t size) noexcept { return std::malloc(size); }
    static void operator delete(void *ptr) noexcept { std::free(ptr); }
};
