#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the recorded interface of the first release is that of Debian's header: the same functions, and
compatible prototypes, values and layouts in C and C++. The test `header` checks this header against the same record."""

import header
import suite


def main():
    debian = suite.Debian(suite.parser(__doc__, "debian").parse_args().debian).header
    header.check(debian.parent, ["LIBRPMA_1.0"])
    functions = suite.released_functions("LIBRPMA_1.0")
    suite.expect_equal("functions of Debian's header", suite.prototypes(debian), functions)
    print(f"{len(functions)} prototypes, each compatible with Debian's")


if __name__ == "__main__":
    main()
