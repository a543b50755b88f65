// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "config/config.hpp"

namespace rpmemd
{

// Implements rpmemd --listen: serves copies of sets to clients with a key, until SIGTERM or SIGINT.
exit_status serve_mirrors(const config &settings);

} // namespace rpmemd
