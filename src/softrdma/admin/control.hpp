// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softrdma::net::control
{

// Answers the softrdma command of the same user: what this process does, faults to inject, a power cut. Once per
// process; where it cannot, the process runs without.
void start();

} // namespace softrdma::net::control
