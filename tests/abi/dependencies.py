#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the library needs only the three libraries of the original, no C++ runtime, and has no search path."""

import re

import suite

NEEDED = ["libibverbs.so.1", "librdmacm.so.1", "libc.so.6"]
# Weak references that the compiler adds to every shared object. They need no library.
UNVERSIONED = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__"}


def main():
    library = suite.parser(__doc__, "library").parse_args().library
    suite.need_tools("readelf")

    # On some architectures the stack protector reads its canary from the dynamic loader, which every program has.
    needed = [name for name in suite.dynamic_entries(library, "NEEDED") if not name.startswith("ld-linux-")]
    if needed != NEEDED:
        suite.fail(f"NEEDED is {needed} instead of {NEEDED}")
    for tag in ("RPATH", "RUNPATH"):
        suite.expect_equal(tag, suite.dynamic_entries(library, tag), [])
    if "NOW" not in " ".join(suite.dynamic_entries(library, "FLAGS") + suite.dynamic_entries(library, "FLAGS_1")):
        suite.fail("the library is not linked with -z now")

    imported = suite.dynamic_symbols(library, defined=False)
    foreign = [name for name in imported
               if not re.search(r"@(GLIBC|IBVERBS|RDMACM)_[0-9.]+$", name) and name not in UNVERSIONED]
    suite.expect_equal("symbols from other libraries", foreign, [])
    suite.expect_equal("symbols of C++", [name for name in imported if name.startswith("_Z")], [])
    print(f"needs {', '.join(needed)}; {len(imported)} imported symbols, all provided by these")


if __name__ == "__main__":
    main()
