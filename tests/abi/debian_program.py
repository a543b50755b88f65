#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs built with Debian's header and library run unchanged on ours, and the same programs on Debian's."""

import argparse
import os
import pathlib
import tempfile

import suite


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--debian", required=True, type=pathlib.Path)
    parser.add_argument("--provider", required=True, type=pathlib.Path, help="preloaded for want of a device")
    parser.add_argument("sources", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    for tool in ("cc", "readelf"):
        suite.need_tool(tool)
    debian = suite.Debian(options.debian)
    with tempfile.TemporaryDirectory() as scratch:
        for source in options.sources:
            program = pathlib.Path(scratch, source.stem)
            suite.command("cc", "-std=c11", "-O2", *suite.WARNINGS, f"-I{debian.include}", source, "-o", program,
                          debian.library)
            suite.expect_equal(f"librpma needed by {program.name}",
                               [name for name in suite.dynamic_entries(program, "NEEDED") if "rpma" in name],
                               [suite.LIBRARY])
            for library in (debian.library, options.library):
                suite.command(program, env=dict(os.environ, LD_LIBRARY_PATH=str(library.resolve().parent),
                                                LD_PRELOAD=str(options.provider.resolve())))
            print(f"{source.name}, built against Debian's librpma, runs on ours")


if __name__ == "__main__":
    main()
