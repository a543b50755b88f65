#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's librpma0 and ours export the same symbols with the same versions and types and need the same libraries."""

import argparse
import pathlib

import suite


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--debian", required=True, type=pathlib.Path)
    options = parser.parse_args()
    suite.need_tool("readelf")
    debian = suite.Debian(options.debian).library
    theirs = suite.exported_symbols(debian)
    suite.expect_equal("exported symbols and their types",
                       suite.exported_symbols(options.library).items(), theirs.items())
    suite.expect_equal("SONAME", suite.dynamic_entries(options.library, "SONAME"),
                       suite.dynamic_entries(debian, "SONAME"))
    print(f"{len(theirs)} symbols, the same as Debian's")


if __name__ == "__main__":
    main()
