// SPDX-License-Identifier: BSD-3-Clause
#include "progress.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

#include "report.hpp"

namespace mirror_tool
{

namespace
{

constexpr std::int64_t interval_ms = 500;

std::atomic<int> stop_requested = 0; // set by the signal handler, and read by threads of the library
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int)
{
    stop_requested = 1;
}

std::int64_t now_ms()
{
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

std::string line_of(const rpma_mirror_progress &p)
{
    const std::string left =
            p.seconds_left == UINT32_MAX ? "" : fmt::format(", {} left", duration_text(p.seconds_left));
    return fmt::format("copy {}: {:3}% of {}, {}/s{}, {} sent", p.copy,
            p.total_bytes == 0 ? 100 : p.compared_bytes * 100 / p.total_bytes, size_text(p.total_bytes),
            size_text(p.bytes_per_second), left, size_text(p.sent_bytes));
}

} // namespace

progress::progress(const options &of)
    : terminal_(isatty(STDERR_FILENO) == 1), shown_(of.progress == "on" || (of.progress == "auto" && terminal_))
{
    resync_options_.size = sizeof(resync_options_);
    resync_options_.bytes_per_second = of.rate;
    resync_options_.progress = called;
    resync_options_.context = this;
    struct sigaction action {
    };
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND); // the second one ends the program
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

progress::~progress()
{
    end_line();
}

void progress::end_line()
{
    const std::lock_guard guard(lock_);
    if (in_line_)
        std::fputc('\n', stderr);
    in_line_ = false;
}

int progress::called(void *self, const rpma_mirror_progress *p)
{
    static_cast<progress *>(self)->update(*p);
    return stop_requested;
}

void progress::update(const rpma_mirror_progress &p)
{
    if (shown_)
        show(p);
}

bool progress::is_canceled()
{
    return stop_requested != 0;
}

// On a terminal, updates one line for the copy with the most data left. Otherwise prints a line per interval and copy.
void progress::show(const rpma_mirror_progress &p)
{
    const std::lock_guard guard(lock_);
    copies_[p.copy] = p;
    const bool done = p.compared_bytes == p.total_bytes && p.phase == RPMA_MIRROR_PHASE_COMPARE;
    if (!done && now_ms() - shown_at_ms_ < interval_ms)
        return;
    shown_at_ms_ = now_ms();
    if (!terminal_) {
        fmt::print(stderr, "{}\n", line_of(p));
        return;
    }
    const auto last = std::ranges::max_element(
            copies_, {}, [](const auto &entry) { return entry.second.total_bytes - entry.second.compared_bytes; });
    fmt::print(stderr, "\r{:<78}", line_of(last->second));
    std::fflush(stderr);
    in_line_ = true;
}

} // namespace mirror_tool
