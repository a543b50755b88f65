// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace bench
{

// Keeps a share of every core busy, in periods of 10 ms.
class background_load
{
public:
    explicit background_load(std::uint32_t percent);
    ~background_load() { stop(); }
    background_load(const background_load &) = delete;
    background_load &operator=(const background_load &) = delete;
    // Returns the processor time of the load, in nanoseconds.
    std::uint64_t stop();

private:
    void burn(std::uint32_t percent);

    std::atomic<bool> stop_{false};
    std::atomic<std::uint64_t> cpu_ns_{0};
    std::vector<std::thread> threads_;
};

} // namespace bench
