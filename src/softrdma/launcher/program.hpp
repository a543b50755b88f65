// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>

namespace softrdma::launcher
{

std::filesystem::path file_of(const std::string &program); // file that execvp() finds, or an empty path

struct program_file {
    bool is_elf = false;
    std::string interpreter;
    const char *reason = nullptr; // condition that keeps preloaded libraries out of the program, or NULL
    const char *remedy = nullptr;
};
program_file inspect(const std::filesystem::path &file);

} // namespace softrdma::launcher
