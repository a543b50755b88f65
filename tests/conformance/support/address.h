// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/* Address of the device under test. */
extern const char *case_address;
