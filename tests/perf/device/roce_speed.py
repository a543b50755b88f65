#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares writes over RoCE with plain UDP packets of the same sizes and number, between two processes of this host.

Both take turns in one run, in a network namespace. The table shows medians, also of the ratios. A ratio of 1.43 is 0.7 of the
packet rate of UDP."""

import argparse
import pathlib
import sys

from device_table import Table, run

INTERFACE_MTUS = (65536, 1500) # path MTU 4096 and 1024
EPILOG = """\
The results are valid on an idle machine only: both ends of a packet need a processor at the same time.
The UDP sockets only transfer the packets: they lack the invariant CRC, and the copy for a retransmission.
Needs root. Exit status: 0 done, 1 a program failed, 2 wrong command line."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a build of type Release, with the tests")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="turns of each MTU (default: %(default)s)")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs: at least one")
    programs = options.build / "bin"
    if not (programs / "device_speed").exists():
        parser.error(f"{options.build}: bin/device_speed not found (build the tests)")

    table = Table()
    for _ in range(options.runs):
        for mtu in INTERFACE_MTUS:
            lines = run(["unshare", "--net", "sh", "-c",
                         'ip link set lo mtu "$1" up && exec "$2/softrdma" run -- "$2/device_speed" roce',
                         "sh", str(mtu), str(programs)]).splitlines()
            for operation, size, ns, floor, floor_ns, disturbed in (line.split("\t") for line in lines):
                table.add_device((operation, int(size)), float(ns), floor, float(floor_ns), disturbed == "1")
    table.show([])
    return 0


if __name__ == "__main__":
    sys.exit(main())
