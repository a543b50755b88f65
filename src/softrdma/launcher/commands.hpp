// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace softrdma::launcher
{

inline constexpr int exit_failure = 1;
inline constexpr int exit_usage = 2;

// Says what is wrong with the command line; returns exit_usage.
int usage(const std::string &problem);

struct run_choice {
    bool dropin = false;          // stand in for the libraries instead of being preloaded
    bool prefer_hardware = false; // if there is some
};

// Says so, in one line, if the program takes no libraries but its own.
void warn_if_out_of_reach(const char *program);
// The path of libsoftrdma.so; empty, after a message, if it is not there.
std::string find_library();
// Replaces this process by the program on the device. Returns an exit status if that fails.
int run_on_device(char **command, const run_choice &how = {});

// Each command gets what follows its name and its options, and returns an exit status.
int run_command(const run_choice &how, int argc, char **argv);
int info_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int ps_command(int argc, char **argv);
int fault_command(int argc, char **argv);
int powercut_command(int argc, char **argv);
int trace_command(const std::string &file, int argc, char **argv);

} // namespace softrdma::launcher
