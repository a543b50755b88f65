// SPDX-License-Identifier: BSD-3-Clause
#ifndef CONFORMANCE_ADDRESS_H
#define CONFORMANCE_ADDRESS_H

/* Address of the device under test. */
extern const char *case_address;

#endif
