// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

// The macro fail of cmocka conflicts with the standard library: include this header after the others.
#include "registered_tests.h"
