#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a test of this directory, or exits with 77 if an NBD client is missing.

usage: with_tools.py FILE"""

import importlib.util
import pathlib
import runpy
import shutil
import sys

PROGRAMS = {"nbdkit": "nbdkit", "nbdinfo": "libnbd-bin", "nbdcopy": "libnbd-bin", "fio": "fio", "qemu-io": "qemu-utils",
            "mke2fs": "e2fsprogs"}


def main(arguments):
    missing = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    if importlib.util.find_spec("nbd") is None:
        missing.add("python3-libnbd")
    if missing:
        print(f"skipped: clients of NBD are missing (install {', '.join(sorted(missing))})")
        return 77
    test = pathlib.Path(__file__).resolve().parent / arguments[0]
    sys.argv = [str(test), *arguments[1:]]
    sys.path.insert(0, str(test.parent))
    runpy.run_path(str(test), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
