// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>
#include <string>
#include <sys/stat.h>

#include "base/fd_owner.hpp"

namespace replica
{

// Error of a file: an errno value, and the reason without the name of the file.
class file_error : public std::runtime_error
{
public:
    file_error(int error, const std::string &text) : std::runtime_error(text), error_(error) {}
    int os_errno() const { return error_; }

private:
    int error_;
};

enum class readable_by {
    any,
    owner // the file contains a secret
};

// Returns the facts of an opened regular file or character device. Throws file_error for others, and if fd is invalid.
struct stat check_text_file(const fd_owner &file);

// Reads the rest of a file of at most 1 MiB. Throws file_error.
std::string read_text(const fd_owner &file);

// Reads a file of at most 1 MiB without waiting for a writer of a named pipe, which is rejected. A character device is
// accepted: /dev/null is an empty file. Throws file_error.
std::string read_text_file(const std::string &path, readable_by users = readable_by::any);

} // namespace replica
