// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <stdexcept>
#include <string>

namespace replica
{

// Pre-shared keys of TLS by the name of their client.
using tls_keys = std::map<std::string, std::string>;

class key_file_error : public std::runtime_error
{
public:
    key_file_error(int error, const std::string &text) : std::runtime_error(text), error_(error) {}
    int os_errno() const { return error_; }

private:
    int error_;
};

// Parses the lines NAME:HEXKEY of psktool(1). A key has 16 to 64 bytes. Throws std::invalid_argument.
tls_keys parse_keys(const std::string &text);

// Reads a key file, which other users must not be able to access. Throws key_file_error.
tls_keys read_key_file(const std::string &path);

} // namespace replica
