#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Header, version script and library agree: the 84 released functions under one version node and nothing else."""

import argparse
import pathlib
import re

import suite


def map_functions(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    stanzas = re.findall(r"(\S+)\s*\{(.*?)\}", text, flags=re.DOTALL)
    suite.expect_equal("nodes of the version script", [node for node, _ in stanzas], [suite.NODE])
    exported, _, local = stanzas[0][1].partition("local:")
    suite.expect_equal("local symbols of the version script", re.findall(r"[^\s;]+", local), ["*"])
    return re.findall(r"([^\s;]+)\s*;", exported.replace("global:", ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--header", required=True, type=pathlib.Path)
    parser.add_argument("--map", required=True, type=pathlib.Path)
    options = parser.parse_args()
    suite.need_tool("readelf")

    released = suite.released_functions()
    if len(released) != 84:
        suite.fail(f"released_1_0.h declares {len(released)} functions, 84 were released")
    suite.expect_equal("functions of the header", suite.prototypes(options.header), released)
    suite.expect_equal("functions of the version script", map_functions(options.map), released)

    exported = suite.exported_symbols(options.library)
    suite.expect_equal("exported symbols", exported,
                       [f"{name}@@{suite.NODE}" for name in released] + [suite.NODE])
    suite.expect_equal("functions among the exported symbols",
                       [name for name, kind in exported.items() if kind == "FUNC"],
                       [name for name in exported if name != suite.NODE])
    suite.expect_equal("SONAME", suite.dynamic_entries(options.library, "SONAME"), [suite.LIBRARY])
    print(f"{len(released)} functions and {suite.NODE}, nothing else")


if __name__ == "__main__":
    main()
