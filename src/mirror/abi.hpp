// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Exports exactly the functions of the public header.
#pragma GCC visibility push(default)
#include "librpma_mirror.h"
#pragma GCC visibility pop
