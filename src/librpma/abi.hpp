// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The only file that includes the public header: its declarations are exported, all others are hidden.
#pragma GCC visibility push(default)
#include "librpma.h"
#pragma GCC visibility pop
