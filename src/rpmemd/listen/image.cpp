// SPDX-License-Identifier: BSD-3-Clause
#include "listen/image.hpp"

#include <algorithm>
#include <sys/mman.h>

#include "base/clock.hpp"
#include "config/failure.hpp"
#include "store/pool_memory.hpp"

namespace rpmemd
{

namespace
{

constexpr std::size_t copy_step = std::size_t{1} << 20;
std::atomic<std::uint64_t> bytes_of_all = 0;

} // namespace

image::image(std::uint64_t length, std::uint64_t max_bytes) : length_(length)
{
    if (bytes_of_all.fetch_add(length) + length > max_bytes) {
        bytes_of_all -= length;
        throw failure(EBUSY, "image of " + std::to_string(length) + " bytes for a reader: more than " +
                                     std::to_string(max_bytes) +
                                     " bytes for all readers (see max-reader-bytes in rpmemd.conf)");
    }
    void *const memory =
            mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        bytes_of_all -= length;
        throw system_failure("cannot allocate an image for a reader");
    }
    memory_ = static_cast<std::byte *>(memory);
}

image::~image()
{
    munmap(memory_, length_);
    bytes_of_all -= length_;
}

int image::copy(std::span<const std::byte> from, int max_ms) const
{
    const replica::deadline until(max_ms);
    for (std::size_t at = 0; at < from.size(); at += copy_step) {
        if (until.passed())
            return ETIMEDOUT;
        if (const int error = copy_parts(from.subspan(at, std::min(copy_step, from.size() - at)), memory_ + at);
                error != 0)
            return error;
    }
    return 0;
}

} // namespace rpmemd
