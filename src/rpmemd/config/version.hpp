// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace rpmemd
{

constexpr const char *daemon_version = RPMEMD_VERSION;

} // namespace rpmemd
