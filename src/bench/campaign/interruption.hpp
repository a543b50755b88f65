// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace bench
{

// While it lives, SIGINT and SIGTERM end the program as they do by default, after one line that says where the results
// are. There is one at a time.
class interruption
{
public:
    explicit interruption(const std::string &advice);
    ~interruption();
    interruption(const interruption &) = delete;
    interruption &operator=(const interruption &) = delete;
};

} // namespace bench
