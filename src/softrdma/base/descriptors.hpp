// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Limit of open file descriptors (RLIMIT_NOFILE). Each connection uses one descriptor.
namespace softrdma::descriptors
{

// Raises the soft limit to the hard limit once half of it is in use, so that files of the program still fit.
void opened(int newest) noexcept;

// Called after EMFILE or ENFILE. Returns true if it raised the soft limit: repeat the call. Otherwise prints, once.
bool exhausted(int error) noexcept;

} // namespace softrdma::descriptors
