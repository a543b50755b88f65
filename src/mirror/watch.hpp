// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <thread>

#include "background.hpp"
#include "wakeup.hpp"

namespace mirror
{

// Thread that detects losses while the program does not flush, and starts background resyncs.
class watcher
{
public:
    watcher(set_parts &of, background_resync &background);
    ~watcher() { stop(); }
    watcher(const watcher &) = delete;
    watcher &operator=(const watcher &) = delete;

    void start();
    void stop();

private:
    void watch();
    void poll_targets();

    const settings &settings_;
    membership &membership_;
    const arbiter &arbiter_;
    const lease_renewal &renewal_;
    const remote_copies &copies_;
    background_resync &background_;
    lost_targets &lost_;

    const wakeup stop_;
    std::jthread thread_;
};

} // namespace mirror
