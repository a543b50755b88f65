// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace softrdma::launcher
{

inline constexpr int exit_failure = 1;
inline constexpr int exit_usage = 2;

// Prints an error in the command line; returns exit_usage.
int usage(const std::string &message);

struct run_choice {
    bool dropin = false;          // replace the libraries instead of being preloaded
    bool prefer_hardware = false; // use a hardware device if one is active
};

// Prints a one-line warning if the program cannot be preloaded.
void warn_if_not_preloadable(const char *program);
// Returns the path of libsoftrdma.so; empty, after a message, if it is not found.
std::string find_library();
// Replaces this process by the program on the device. Returns an exit status if that fails.
int run_on_device(char **command, const run_choice &how = {});

// Each command gets the arguments after its name and options, and returns an exit status.
int run_command(const run_choice &how, int argc, char **argv);
int info_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int ps_command(int argc, char **argv);
int fault_command(int argc, char **argv);
int powercut_command(int argc, char **argv);
int trace_command(const std::string &file, int argc, char **argv);

} // namespace softrdma::launcher
