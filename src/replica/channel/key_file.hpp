// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <string>

#include "base/text_file.hpp"

namespace replica
{

// Pre-shared keys of TLS by the name of their client.
using tls_keys = std::map<std::string, std::string>;

// Parses the lines NAME:HEXKEY of psktool(1). A key has 16 to 64 bytes. Throws std::invalid_argument.
tls_keys parse_keys(const std::string &text);

// Reads a key file, which other users must not be able to access. Throws file_error with its name.
tls_keys read_key_file(const std::string &path);

} // namespace replica
