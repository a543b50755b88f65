// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace rpmemd
{

// Other running processes of this user and this program.
unsigned processes_like_this();

} // namespace rpmemd
