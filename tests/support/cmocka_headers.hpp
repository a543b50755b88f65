// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

// The macro fail of cmocka conflicts with the standard library: include this header after the others.
extern "C" {
#include <cmocka.h>
}

#include "registered_tests.h"
