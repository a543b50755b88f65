// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softrdma::trace
{

// Starts recording if SOFTRDMA_TRACE names a file, which must contain the header of a capture. Returns false, after a
// message on stderr, if it cannot be written.
bool configure();

} // namespace softrdma::trace
