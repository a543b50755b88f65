// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <thread>

#include "fd_owner.hpp"
#include "parts.hpp"

namespace mirror
{

// Thread that detects losses while the program does not flush, and renews the right to write.
class watcher
{
public:
    explicit watcher(set_parts &of);
    ~watcher() { stop(); }
    watcher(const watcher &) = delete;
    watcher &operator=(const watcher &) = delete;

    // Throws failure.
    void start();
    void stop();

private:
    void watch();
    void poll_targets();

    const settings &settings_;
    membership &membership_;
    arbiter &arbiter_;
    const remote_copies &copies_;

    std::jthread thread_;
    replica::fd_owner stop_;
};

} // namespace mirror
