#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A call of rpma.hpp is compiled to no more instructions than the call of librpma.h that it stands for.

usage: costs.py OBJECT   (costs.cpp, optimised)
"""

import re
import shutil
import subprocess
import sys


def instructions(path):
    """How many instructions each function of the object has, without what fills up to the next one."""
    output = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path],
                            capture_output=True, text=True, timeout=60, check=True).stdout
    counts, name = {}, None
    for line in output.splitlines():
        if symbol := re.match(r"[0-9a-f]+ <(\w+)>:$", line):
            name = symbol[1]
            counts[name] = 0
        elif name and re.match(r"\s+[0-9a-f]+:\t(?!(cs |data16 )*nop|xchg\s+%ax,%ax)", line):
            counts[name] += 1
    return counts


def main():
    if shutil.which("objdump") is None:
        print("skipped: objdump is not installed")
        return 77
    counts = instructions(sys.argv[1])
    calls = sorted(name.removeprefix("cpp_") for name in counts if name.startswith("cpp_"))
    dearer = [call for call in calls if counts[f"cpp_{call}"] > counts[f"c_{call}"]]
    for call in calls:
        print(f"{call:<14}{counts[f'c_{call}']:>4} in C{counts[f'cpp_{call}']:>4} in C++")
    if not calls or dearer:
        print(f"failed: {', '.join(dearer) or 'no call found'}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
