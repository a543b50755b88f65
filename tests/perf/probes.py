#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that a disabled static probe costs a call one nop. Polling for a completion has two probes."""

import pathlib
import subprocess
import sys

import profile
from instruction_counts import count

NOPS = {"get_wc": 2}


def probes(library_dir):
    notes = subprocess.run(["readelf", "--notes", library_dir / profile.LIBRARY], capture_output=True, text=True,
                           check=True).stdout
    return notes.count("Name: post_rdma")


def main():
    parser = profile.arguments(__doc__)
    parser.add_argument("--without-probes", required=True, type=pathlib.Path, help="directory of the other library")
    options = parser.parse_args()
    if not probes(options.library_dir) or probes(options.without_probes):
        profile.fail("expected one library with probes and one without")
    with_probes, without = (count(options, directory) for directory in (options.library_dir, options.without_probes))
    print(f"{'instructions per call':<24}{'with probes':>12}{'without':>9}")
    for row, instructions in with_probes.items():
        print(f"{row:<24}{instructions:>12g}{without[row]:>9g}")
    dearer = [row for row, instructions in with_probes.items() if instructions > without[row] + NOPS.get(row, 1)]
    if dearer:
        print(f"failed: more than the nops: {', '.join(dearer)}")
    if all(instructions <= without[row] for row, instructions in with_probes.items()):
        profile.fail("no nop found: these two libraries were not measured")
    return 1 if dearer else 0


if __name__ == "__main__":
    sys.exit(main())
