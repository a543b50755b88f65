#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that each call of rpma.hpp compiles to no more instructions than the corresponding call of librpma.h.

usage: costs.py OBJECT HEADER SOURCE   (costs.cpp, optimized, rpma.hpp, costs.cpp)"""

import pathlib
import re
import shutil
import subprocess
import sys


def instructions(path):
    """Returns the number of instructions of each function of the object, without padding."""
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


def uncompared(header, source):
    """Returns the functions that the header calls and the source does not compare. Functions that create or delete objects are
    exempt: rpma.hpp adds a destructor there, and finds the device of a peer."""
    text = re.sub(r"//[^\n]*", "", header.read_text())
    wrapped = set(re.findall(r"(?:\bget_or\(|\b(?=rpma_\w+\())(rpma_\w+)", text))
    return sorted(name for name in wrapped if not re.search(rf"\b{name}\(", source.read_text())
                  and not name.startswith("rpma_utils_get_ibv_context"))


def main():
    if shutil.which("objdump") is None:
        print("skipped: objdump is not installed")
        return 77
    counts = instructions(sys.argv[1])
    missing = uncompared(*map(pathlib.Path, sys.argv[2:]))
    if missing:
        print(f"failed: not compared: {', '.join(missing)}")
        return 1
    calls = sorted(name.removeprefix("cpp_") for name in counts if name.startswith("cpp_"))
    dearer = [call for call in calls if counts[f"cpp_{call}"] > counts[f"c_{call}"]]
    for call in calls:
        print(f"{call:<22}{counts[f'c_{call}']:>4} in C{counts[f'cpp_{call}']:>4} in C++")
    if not calls or dearer:
        print(f"failed: {', '.join(dearer) or 'no call found'}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
