#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks with abidiff that this build changes neither symbols nor types of Debian's library.

Debian's library has no debug information. Its types come from its header: the test compiles a library of empty functions
with Debian's prototypes and compares that with this build."""

import argparse
import pathlib
import subprocess
import tempfile

import suite


def abidiff(before, headers, options):
    words = ["abidiff", "--no-show-locs", "--no-added-syms", "--drop-private-types", "--headers-dir1", str(headers), "--headers-dir2",
             str(options.header.parent), str(before), str(options.library)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    if result.returncode != 0:
        suite.fail(f"abidiff from {before} ended with {result.returncode}\n{result.stdout}{result.stderr}")


def library_of_header(debian, version_script, scratch):
    source, library = scratch / "librpma.c", scratch / suite.LIBRARY
    definitions = [prototype.rstrip(";") + " { return 0; }" for prototype in suite.prototypes(debian.header).values()]
    source.write_text("#include <librpma.h>\n" + "\n".join(definitions) + "\n")
    suite.command("cc", "-g", "-shared", "-fPIC", f"-I{debian.include}", f"-Wl,--version-script={version_script}",
                  f"-Wl,-soname,{suite.LIBRARY}", source, "-o", library, "-libverbs", "-lrdmacm")
    return library


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--header", required=True, type=pathlib.Path)
    parser.add_argument("--map", required=True, type=pathlib.Path)
    parser.add_argument("--debian", required=True, type=pathlib.Path)
    options = parser.parse_args()
    for tool in ("abidiff", "cc", "readelf"):
        suite.need_tool(tool)
    debian = suite.Debian(options.debian)
    if ".debug_info" not in suite.command("readelf", "-W", "-S", options.library):
        suite.skip("our library is built without debug information")
    abidiff(debian.library, debian.include, options)
    with tempfile.TemporaryDirectory() as scratch:
        abidiff(library_of_header(debian, options.map, pathlib.Path(scratch)), debian.include, options)
    print("abidiff finds no change")


if __name__ == "__main__":
    main()
