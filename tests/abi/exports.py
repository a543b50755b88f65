#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that header, version script and library agree: each released function has its version node, and no other symbol is
exported."""

import re

import suite


def map_functions(path):
    """Returns the functions of each node of the version script. Its only local pattern is '*'."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    functions, local = {}, []
    for node, stanza in re.findall(r"(\S+)\s*\{(.*?)\}", text, flags=re.DOTALL):
        exported, _, hidden = stanza.partition("local:")
        functions[node] = re.findall(r"([^\s;]+)\s*;", exported.replace("global:", ""))
        local += re.findall(r"[^\s;]+", hidden)
    suite.expect_equal("nodes of the version script", functions, suite.NODES)
    suite.expect_equal("local symbols of the version script", local, ["*"])
    return functions


def main():
    options = suite.parser(__doc__, "library", "header", "map").parse_args()
    suite.need_tools("readelf")

    released = {node: suite.released_functions(node) for node in suite.NODES}
    if len(released["LIBRPMA_1.0"]) != 84:
        suite.fail(f"released_1_0.h declares {len(released['LIBRPMA_1.0'])} functions, 84 were released")
    suite.expect_equal("functions of the header", suite.prototypes(options.header), suite.all_functions())
    for node, functions in map_functions(options.map).items():
        suite.expect_equal(f"functions of {node} in the version script", functions, released[node])

    exported = suite.exported_symbols(options.library)
    suite.expect_equal("exported symbols", exported,
                       [f"{name}@@{node}" for node, names in released.items() for name in names] + [*suite.NODES])
    suite.expect_equal("functions among the exported symbols",
                       [name for name, kind in exported.items() if kind == "FUNC"],
                       [name for name in exported if name not in suite.NODES])
    suite.expect_equal("SONAME", suite.dynamic_entries(options.library, "SONAME"), [suite.LIBRARY])
    print(f"{len(suite.all_functions())} functions and {', '.join(suite.NODES)}, nothing else")


if __name__ == "__main__":
    main()
