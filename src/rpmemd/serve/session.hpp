// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "config/config.hpp"

namespace rpmemd
{

// Serves one client over standard input and output, from the greeting to the end of the session.
exit_status serve_client(const config &settings);

} // namespace rpmemd
