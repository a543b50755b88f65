// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "config.hpp"

namespace rpmemd
{

// rpmemd --listen: keeps copies of mirrored sets for writers that have the key, until SIGTERM or SIGINT. Throws
// failure.
exit_status serve_mirrors(const config &settings);

} // namespace rpmemd
