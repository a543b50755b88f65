#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares one-way message times of programs over the software device and over another transport.

Both take turns in one run on the same two processors. The table shows medians, also of the ratios."""

import dataclasses
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable

from device_table import argument_parser, of_two, run, ucx_messages

SIZES = (8, 4096)
ROUNDS = "2000"
FEW = {"sizes": SIZES, "rounds": ROUNDS, "warm_up": "200"}
PING_PONG = pathlib.Path(__file__).with_name("ping_pong.c")
EPILOG = """\
Limits of the rows: a datagram takes a lock of its queue pair, its port and its ring at each end, a message one of its
queue pair. UCX and Open MPI receive from shared receive queues, which lend their receives to each sender of the host.

The results are valid on an idle machine only: if other processes use the same processors, both ends of a message wait
for a processor, and this wait determines the result.
Needs perftest, ucx-utils, openmpi-bin and libopenmpi-dev; missing tools are reported.
Exit status: 0 done, 1 a program failed, 2 wrong command line."""

Times = dict[int, float]  # ns by size


class Programs:
    def __init__(self, build: pathlib.Path, directory: str) -> None:
        self.launch = [str(build / "bin" / "softrdma"), "run", "--"]
        self.ping_pong = str(pathlib.Path(directory) / "ping_pong")

    def perftest(self, *options: str) -> Times:
        found = {}
        for size in SIZES:
            command = [*self.launch, "ib_send_lat", *options, "-s", str(size), "-n", ROUNDS, "-F", "-p"]
            output = of_two(lambda port, command=command: [*command, port],
                            lambda port, command=command: [*command, port, "127.0.0.1"])
            values = next(line for line in output.splitlines() if line.split()[:2] == [str(size), ROUNDS])
            found[size] = float(values.split()[4]) * 1000  # column t_typical
        return found

    def open_mpi(self, launch: list[str], *choice: str, **environment: str) -> Times:
        if not pathlib.Path(self.ping_pong).exists():
            run(["mpicc.openmpi", "-O2", "-o", self.ping_pong, str(PING_PONG)])
        lines = run([*launch, "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *choice,
                     "-n", "2", self.ping_pong, *map(str, SIZES)], **environment).splitlines()
        times = [line for line in lines if re.fullmatch(r"\d+ \d+", line)]
        print(*set(lines) - set(times), sep="\n", end="", file=sys.stderr)  # UCX prints warnings on standard output
        return {int(size): float(ns) for size, ns in map(str.split, times)}


@dataclasses.dataclass(frozen=True)
class Pair:
    device: str
    other: str
    tool: str
    measure: Callable[[], Times]
    measure_other: Callable[[], Times]


def pairs(p: Programs) -> list[Pair]:
    device = "rc,ud,self"
    return [
        Pair("UD SEND, perftest", "RC SEND", "ib_send_lat",
             lambda: p.perftest("-c", "UD"), lambda: p.perftest()),
        Pair("UCX, its choice on the device", "UCX tcp", "ucx_perftest",
             lambda: ucx_messages(device, *p.launch, **FEW), lambda: ucx_messages("tcp,self", **FEW)),
        Pair("Open MPI over UCX on the device", "Open MPI vader", "mpicc.openmpi",
             lambda: p.open_mpi(p.launch, "--mca", "pml", "ucx", "--mca", "btl", "^openib,vader,tcp", UCX_TLS=device),
             lambda: p.open_mpi([], "--mca", "pml", "ob1", "--mca", "btl", "vader,self")),
    ]


def show(pair: Pair, device: list[Times], others: list[Times]) -> None:
    for size in device[0]:
        ratio = statistics.median(mine[size] / other[size] for mine, other in zip(device, others))
        print(f"{pair.device:32} {size:8} {statistics.median(t[size] for t in device):10.0f}  {pair.other:18} "
              f"{statistics.median(t[size] for t in others):10.0f} {ratio:7.2f}")


def main() -> int:
    parser = argument_parser(__doc__, EPILOG, "an optimised build of the project, such as build/dev")
    options = parser.parse_args()
    if not (options.build / "bin" / "softrdma").exists():
        parser.error(f"{options.build}: bin/softrdma not found")
    with tempfile.TemporaryDirectory() as directory:
        print(f"{'operation':32} {'bytes':>8} {'ns':>10}  {'beside':18} {'ns':>10} {'ratio':>7}")
        for pair in pairs(Programs(options.build.resolve(), directory)):
            if shutil.which(pair.tool) is None:
                print(f"{pair.device} not measured: {pair.tool} not found")
                continue
            turns = [(pair.measure(), pair.measure_other()) for _ in range(options.runs)]
            show(pair, [device for device, _ in turns], [others for _, others in turns])
    return 0


if __name__ == "__main__":
    sys.exit(main())
