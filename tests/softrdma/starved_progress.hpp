// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/event_loop.hpp"

#include <atomic>
#include <chrono>
#include <unistd.h>

// Keeps the progress thread busy during its lifetime, as if no CPU were available to that thread.
class starved_progress
{
public:
    starved_progress()
    {
        softrdma::event_loop::get()->after(std::chrono::microseconds(0), [this] {
            entered_ = true;
            while (!ends_)
                usleep(100);
            left_ = true;
        });
        while (!entered_)
            usleep(100);
    }
    ~starved_progress()
    {
        ends_ = true;
        while (!left_)
            usleep(100);
    }
    starved_progress(const starved_progress &) = delete;
    starved_progress &operator=(const starved_progress &) = delete;

private:
    std::atomic<bool> entered_{false};
    std::atomic<bool> ends_{false};
    std::atomic<bool> left_{false};
};
