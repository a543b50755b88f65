// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softrdma::control
{

// Starts the server for the softrdma command of the same user, once. On failure the process runs without it.
void start();

} // namespace softrdma::control
