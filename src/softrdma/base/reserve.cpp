// SPDX-License-Identifier: BSD-3-Clause
#include "base/reserve.hpp"
#include "base/lock.hpp"

#include <array>
#include <new>

namespace softrdma::reserve
{

namespace
{

constexpr std::size_t count = 64;

struct alignas(std::max_align_t) block {
    std::array<std::byte, max_size> bytes;
};

constinit std::array<block, count> blocks{}; // untouched pages use no memory until they are needed
constinit ordered_mutex mutex{lock_level::leaf};
constinit std::array<bool, count> used GUARDED_BY(mutex){};

void *take_block(std::size_t size)
{
    const lock_guard lock(mutex);
    for (std::size_t i = 0; i < count && size <= max_size; ++i) {
        if (!std::exchange(used[i], true))
            return &blocks[i];
    }
    throw std::bad_alloc();
}

} // namespace

void *allocate(std::size_t size)
{
    void *memory = ::operator new(size, std::nothrow);
    return memory != nullptr ? memory : take_block(size);
}

void release(void *memory) noexcept
{
    const auto *at = static_cast<const block *>(memory);
    const std::less<> before;
    if (before(at, blocks.data()) || !before(at, blocks.data() + count))
        return ::operator delete(memory);
    const lock_guard lock(mutex);
    used[static_cast<std::size_t>(at - blocks.data())] = false;
}

} // namespace softrdma::reserve
