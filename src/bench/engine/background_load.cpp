// SPDX-License-Identifier: BSD-3-Clause
#include "background_load.hpp"

#include <algorithm>
#include <chrono>

#include "clock.hpp"

namespace bench
{

namespace
{

constexpr std::uint64_t period_ns = 10'000'000;

}

background_load::background_load(std::uint32_t percent)
{
    const unsigned cores = percent == 0 ? 0 : std::max(1U, std::thread::hardware_concurrency());
    for (unsigned i = 0; i < cores; ++i)
        threads_.emplace_back([this, percent] { burn(percent); });
}

std::uint64_t background_load::stop()
{
    stop_ = true;
    for (std::thread &one : threads_)
        one.join();
    threads_.clear();
    return cpu_ns_;
}

void background_load::burn(std::uint32_t percent)
{
    const std::uint64_t busy_ns = period_ns * percent / 100;
    while (!stop_) {
        const std::uint64_t end = now_ns() + busy_ns;
        while (now_ns() < end && !stop_)
            ;
        std::this_thread::sleep_for(std::chrono::nanoseconds(period_ns - busy_ns));
    }
    cpu_ns_ += read_clock(CLOCK_THREAD_CPUTIME_ID);
}

} // namespace bench
