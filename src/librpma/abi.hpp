// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The one place that includes the public header: what it declares is exported, everything else stays hidden.
#pragma GCC visibility push(default)
#include "librpma.h"
#pragma GCC visibility pop
