// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#pragma GCC visibility push(default)
#include "librpmem.h"
#pragma GCC visibility pop
