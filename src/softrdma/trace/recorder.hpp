// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softrdma::trace
{

// Starts recording into the capture that SOFTRDMA_TRACE names. Returns false, after a message, if it is not writable.
bool configure();

} // namespace softrdma::trace
