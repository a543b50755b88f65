// SPDX-License-Identifier: BSD-3-Clause
#include "cm/unknown_callers.hpp"

#include <algorithm>
#include <sys/resource.h>

namespace softrdma::net
{

namespace
{

constexpr auto least_time = std::chrono::milliseconds(100); // that each caller has

// An eighth of the descriptors that the program may have, when that is few.
std::size_t most_callers() noexcept
{
    constexpr rlim_t most = 128;
    rlimit limit{};
    const bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    return static_cast<std::size_t>(known ? std::clamp<rlim_t>(limit.rlim_cur / 8, 1, most) : most);
}

} // namespace

std::chrono::milliseconds unknown_callers::add(const std::shared_ptr<tcp_conn> &path)
{
    const std::size_t most = most_callers();
    std::erase_if(callers_, [](const caller &c) { return c.path.expired(); });
    for (; callers_.size() >= most; callers_.pop_front()) {
        if (const auto oldest = callers_.front().path.lock())
            oldest->finish();
    }
    const auto now = clock::now();
    try {
        callers_.push_back({path, now});
    } catch (const std::bad_alloc &) {
        path->finish();
        return least_time;
    }
    if (callers_.size() < most)
        return std::chrono::milliseconds(0);
    const auto pause = std::chrono::ceil<std::chrono::milliseconds>(callers_.front().since + least_time - now);
    return std::max(pause, std::chrono::milliseconds(0));
}

bool unknown_callers::remove(const std::shared_ptr<tcp_conn> &path)
{
    return std::erase_if(callers_, [&](const caller &c) { return c.path.lock() == path; }) != 0;
}

} // namespace softrdma::net
