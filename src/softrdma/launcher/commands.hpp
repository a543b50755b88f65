// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace softrdma::launcher
{

inline constexpr int exit_failure = 1;
inline constexpr int exit_usage = 2;

int usage(const std::string &message);

struct run_choice {
    bool dropin = false;          // replace the libraries instead of being preloaded
    bool prefer_hardware = false; // use a hardware device if one is active
};

void warn_if_not_preloadable(const char *program);
std::string find_library(); // path of libsoftrdma.so; empty, after a message, if not found
int run_on_device(char **command, const run_choice &how = {}); // returns an exit status on error only

int run_command(const run_choice &how, int argc, char **argv);
int info_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int ps_command(int argc, char **argv);
int fault_command(int argc, char **argv);
int powercut_command(int argc, char **argv);
int trace_command(const std::string &file, int argc, char **argv);

} // namespace softrdma::launcher
