// SPDX-License-Identifier: BSD-3-Clause
#include "interruption.hpp"

#include <csignal>
#include <cstring>
#include <unistd.h>

namespace bench
{

namespace
{

constexpr int ending_signals[] = {SIGINT, SIGTERM};
// Written before the handler is set, so that the handler has nothing left to do but write.
std::string notice;

void tell_and_end(int number)
{
    [[maybe_unused]] const ssize_t told = write(STDERR_FILENO, notice.data(), notice.size());
    raise(number); // by default again, once the handler has returned
}

void set(void (*handler)(int))
{
    struct sigaction action {
    };
    action.sa_handler = handler;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (const int number : ending_signals)
        sigaction(number, &action, nullptr);
}

} // namespace

interruption::interruption(const std::string &advice)
{
    // What stands in the line of the progress bar is replaced.
    notice = (isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "") + ("rpma-bench: interrupted: " + advice + "\n");
    set(tell_and_end);
}

interruption::~interruption()
{
    set(SIG_DFL);
}

} // namespace bench
