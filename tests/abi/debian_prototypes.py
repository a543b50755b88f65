#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that each prototype of this header is compatible with Debian's header, and the reverse, in C and C++.

Each header is compiled together with the prototypes of the other: a conflicting type is an error."""

import argparse
import pathlib
import tempfile

import suite


def compile_over(header, prototypes, scratch):
    source = scratch / "redeclared.c"
    source.write_text('#include <librpma.h>\n#ifdef __cplusplus\nextern "C" {\n#endif\n' + "\n".join(prototypes) +
                      "\n#ifdef __cplusplus\n}\n#endif\n")
    for compiler, language, standard in (("cc", "c", "c11"), ("c++", "c++", "c++17")):
        suite.command(compiler, "-x", language, f"-std={standard}", *suite.WARNINGS, "-fsyntax-only",
                      f"-I{header.parent}", source)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--header", required=True, type=pathlib.Path)
    parser.add_argument("--debian", required=True, type=pathlib.Path)
    options = parser.parse_args()
    for tool in ("cc", "c++"):
        suite.need_tool(tool)
    debian = suite.Debian(options.debian).header
    build_prototypes, debian_prototypes = suite.prototypes(options.header), suite.prototypes(debian)
    build_prototypes = {name: prototype for name, prototype in build_prototypes.items() if name in suite.released_functions("LIBRPMA_1.0")}
    suite.expect_equal("functions of the header", build_prototypes, debian_prototypes)
    with tempfile.TemporaryDirectory() as scratch:
        compile_over(debian, build_prototypes.values(), pathlib.Path(scratch))
        compile_over(options.header, debian_prototypes.values(), pathlib.Path(scratch))
    print(f"{len(build_prototypes)} prototypes, each compatible with Debian's")


if __name__ == "__main__":
    main()
