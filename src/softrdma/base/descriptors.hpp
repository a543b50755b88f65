// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Limit of the number of descriptors (RLIMIT_NOFILE), of which each connection takes one.
namespace softrdma::local::descriptors
{

// Raises the soft limit to the hard limit once half of it is in use, with which the program's own files have space,
// too. `newest` was opened for a connection.
void opened(int newest) noexcept;

// Called after EMFILE or ENFILE for a connection. Returns true if the soft limit was raised, so the call can be
// repeated; else reports the limit and the remedy on standard error, once.
bool exhausted(int error) noexcept;

} // namespace softrdma::local::descriptors
