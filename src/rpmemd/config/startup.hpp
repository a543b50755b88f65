// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "config/config.hpp"

namespace rpmemd
{

// Sets the environment, the signals and the log of this process. Throws config_error.
void start_process(const config &settings);

// Prepares this process to serve clients.
void prepare_to_serve();

} // namespace rpmemd
