// SPDX-License-Identifier: BSD-3-Clause
#ifndef CONFORMANCE_ADDRESS_H
#define CONFORMANCE_ADDRESS_H

/* Where the cases use a device. */
extern const char *case_address;

#endif
