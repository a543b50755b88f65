// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#pragma GCC visibility push(default)
#include "librpma_mirror.h"
#pragma GCC visibility pop
