// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of the public header are what the library exports.
#pragma GCC visibility push(default)
#include "librpma_mirror.h"
#pragma GCC visibility pop
