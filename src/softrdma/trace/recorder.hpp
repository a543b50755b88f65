// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softrdma::trace
{

// Starts recording if SOFTRDMA_TRACE names a file, which has to have a capture's head. False if it cannot be written,
// which has then been said on stderr.
bool configure();

} // namespace softrdma::trace
