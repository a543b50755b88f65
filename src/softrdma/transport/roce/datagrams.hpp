// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/datagram_path.hpp"

namespace softrdma::roce
{

// Creates the path of a datagram queue pair. The caller must not hold a lock. Returns NULL and sets errno on error.
std::unique_ptr<datagram_path> open_datagram_path();

} // namespace softrdma::roce
