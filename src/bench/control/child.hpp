// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace bench
{

// A process that ends with this object, and with this process whatever ends it.
class child
{
public:
    // library_directory, unless empty, comes first in the child's LD_LIBRARY_PATH. The descriptor keep stays open in
    // it under its number.
    child(const std::vector<std::string> &command, const std::string &library_directory, int keep);
    ~child();
    child(child &&other) noexcept;
    child &operator=(child &&) = delete;

    // Whether it has ended, or does so at once.
    bool has_ended() { return reap(); }
    // How it ended, or that it still runs, for people.
    std::string fate();
    // If it has ended by itself, or does so at once.
    std::optional<int> exit_status();

private:
    bool reap();

    pid_t pid_;
    bool reaped_ = false;
    int status_ = 0;
};

// The path of this program.
std::string own_path();
// The launcher of the software device beside this program or in PATH; throws failure if there is none.
std::string softrdma_launcher();
// Why two programs on the software device do not reach each other's memory here, as `softrdma info` says it; empty if
// they do.
std::string why_no_local_path();
// The directory that has librpma.so.0 under path, which is one, its parent or the root of an unpacked package.
std::string find_library_directory(const std::string &path);
// The IPv4 address of a device of the kernel with an active port; empty if there is none.
std::string hardware_address();

} // namespace bench
