// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace bench
{

constexpr const char *tool_version = RPMA_BENCH_VERSION;

} // namespace bench
