#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that this build exports all symbols of Debian's librpma0 with the same versions and types. Others are in newer nodes."""

import suite


def main():
    options = suite.parser(__doc__, "library", "debian").parse_args()
    suite.need_tools("readelf")
    debian = suite.Debian(options.debian).library
    debian_symbols = suite.exported_symbols(debian)
    newer = {name for node in suite.NODES if node not in debian_symbols for name in (node, *(
        f"{function}@@{node}" for function in suite.released_functions(node)))}
    build_symbols = suite.exported_symbols(options.library)
    suite.expect_equal("exported symbols and their types",
                       [(name, kind) for name, kind in build_symbols.items() if name not in newer], debian_symbols.items())
    suite.expect_equal("SONAME", suite.dynamic_entries(options.library, "SONAME"),
                       suite.dynamic_entries(debian, "SONAME"))
    print(f"{len(debian_symbols)} symbols, equal to Debian's")


if __name__ == "__main__":
    main()
