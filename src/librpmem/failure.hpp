// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace rpmem
{

// Stores the message for rpmem_errormsg() of this thread, logs it, sets errno, and returns -1.
[[gnu::format(printf, 2, 3)]] int fail(int error, const char *pattern, ...);

const char *last_failure();

} // namespace rpmem
