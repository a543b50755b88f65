// SPDX-License-Identifier: BSD-3-Clause
#include "base/reserve.hpp"
#include "base/lock.hpp"

#include <array>
#include <functional>
#include <new>

namespace softrdma::reserve
{

namespace
{

constexpr std::size_t count = 64;

struct alignas(std::max_align_t) place {
    std::array<std::byte, largest> bytes;
};

// Untouched pages use no memory until they are needed.
constinit std::array<place, count> places{};
constinit ordered_mutex mutex{lock_level::leaf};
constinit std::array<bool, count> used GUARDED_BY(mutex){};

void *take_place(std::size_t size)
{
    const lock_guard lock(mutex);
    for (std::size_t i = 0; i < count && size <= largest; ++i) {
        if (!std::exchange(used[i], true))
            return &places[i];
    }
    throw std::bad_alloc();
}

} // namespace

void *allocate(std::size_t size)
{
    void *memory = ::operator new(size, std::nothrow);
    return memory != nullptr ? memory : take_place(size);
}

void release(void *memory) noexcept
{
    const auto *at = static_cast<const place *>(memory);
    const std::less<> before;
    if (before(at, places.data()) || !before(at, places.data() + count))
        return ::operator delete(memory);
    const lock_guard lock(mutex);
    used[static_cast<std::size_t>(at - places.data())] = false;
}

} // namespace softrdma::reserve
