#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs built with Debian's header and library run unchanged on this build. Programs built with this header and library,
including C++ programs with rpma.hpp, run on Debian's library if they use no newer function."""

import os
import pathlib
import tempfile

import suite


def main():
    # The provider is preloaded instead of a device.
    parser = suite.parser(__doc__, "library", "header", "debian", "provider")
    parser.add_argument("sources", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    suite.need_tools("cc", "c++", "readelf")
    debian = suite.Debian(options.debian)
    with tempfile.TemporaryDirectory() as scratch:
        provider = pathlib.Path(scratch, "provider.so")  # LD_PRELOAD cannot contain a path with a blank
        provider.symlink_to(options.provider.resolve())
        for source in options.sources:
            compiler = ["c++", "-std=c++20"] if source.suffix == ".cpp" else ["cc", "-std=c11"]
            theirs = [] if source.suffix == ".cpp" else [("Debian's", debian.include, debian.library)]
            for whose, include, built_with in [*theirs, ("our", options.header.parent, options.library)]:
                program = pathlib.Path(scratch, source.stem)
                suite.command(*compiler, "-O2", *suite.WARNINGS, f"-I{include}", source, "-o", program, built_with)
                suite.expect_equal(f"librpma needed by {program.name}",
                                   [name for name in suite.dynamic_entries(program, "NEEDED") if "rpma" in name],
                                   [suite.LIBRARY])
                for library in (debian.library, options.library):
                    suite.command(program, env=dict(os.environ, LD_LIBRARY_PATH=str(library.resolve().parent),
                                                    LD_PRELOAD=str(provider)))
                print(f"{source.name}, built with {whose} header and library, runs on both")


if __name__ == "__main__":
    main()
