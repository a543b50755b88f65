#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares times of the software device with UCX and libfabric, and with the time that the machine needs for the same work.
With --roce, compares writes over RoCE with plain UDP packets of the same sizes and number, between two processes of this host.

All take turns in one run on the same two processors. The table shows medians, also of the ratios."""

import argparse
import collections
import contextlib
import dataclasses
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from common import execute, free_port  # noqa: E402

SIZES = (8, 4096, 65536, 1 << 20)
# Maximum ratio of an operation's time to its time in the earlier build.
LIMIT = 1.25
BEFORE = "before"
TIMEOUT_S = 120
INTERFACE_MTUS = (65536, 1500)  # path MTU 4096 and 1024
EPILOG = """\
UCX needs a build that found libucx-dev and the tool ucx_perftest (ucx-utils), libfabric the tool fi_pingpong
(libfabric-bin); missing tools are reported. UCX writes into memory that the program allocated, as the device does.
Measurements pause while another machine slows a processor down; if that takes too long, the table shows for how many
runs of a row the measurement continued.
Over RoCE a ratio of 1.43 is 0.7 of the packet rate of UDP. The results are valid on an idle machine only: both ends of a
packet need a processor at the same time. The UDP sockets only transfer the packets: they lack the invariant CRC, and the
copy for a retransmission. --roce needs root, for a network namespace.
Exit status: 0 done, 1 a program failed, or a row takes more than 1.25 times its previous time, 2 wrong command line."""

Row = tuple[str, int]


def run(command: list[str], **environment: str) -> str:
    try:
        result = execute(command, env={**os.environ, **environment}, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        sys.exit(f"device_table: {' '.join(command)} takes more than {TIMEOUT_S} s: is the machine busy with something else?")
    if result.returncode != 0:
        sys.exit(f"device_table: {' '.join(command)} failed with status {result.returncode}:\n{result.stderr.strip()}")
    return result.stdout


@contextlib.contextmanager
def serving(command: list[str], **environment: str) -> Iterator[None]:
    """Runs the server, which exits after its client."""
    process = subprocess.Popen(
        ["taskset", "-c", "1", *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, **environment})
    try:
        yield
        process.wait(TIMEOUT_S)
    finally:
        process.kill()
        process.wait()


def of_client(command: list[str], **environment: str) -> str:
    """Returns the output of a client, which starts once its server listens."""
    for attempts_left in reversed(range(20)):
        result = execute(["taskset", "-c", "0", *command], env={**os.environ, **environment}, timeout=TIMEOUT_S)
        if result.returncode == 0:
            return result.stdout
        if attempts_left:
            time.sleep(0.1)
    raise ConnectionError(f"{' '.join(command)} failed:\n{result.stderr.strip()}")


def of_two(server: Callable[[str], list[str]], client: Callable[[str], list[str]], **environment: str) -> str:
    """Returns the output of the client. Both get a port. If a program of UCX exits without output, which happens, both are
    restarted."""
    failure = ConnectionError()
    for _ in range(3):
        port = str(free_port())
        try:
            with serving(server(port), **environment):
                return of_client(client(port), **environment)
        except ConnectionError as error:
            failure = error
    sys.exit(f"device_table: {failure}")


def of_device(build: pathlib.Path, path: str, *prefix: str) -> Iterator[tuple[Row, float, str, float, bool]]:
    command = [*prefix, str(build / "bin" / "softrdma"), "run", "--", str(build / "bin" / "device_speed"), path]
    for line in run(command).splitlines():
        operation, size, ours, floor, floor_ns, disturbed = line.split("\t")
        yield (operation, int(size)), float(ours), floor, float(floor_ns), disturbed == "1"


def ucx_flush(build: pathlib.Path, transports: str) -> dict[int, float]:
    lines = run([str(build / "bin" / "ucx_speed")], UCX_TLS=transports).splitlines()
    return {int(size): float(ns) for size, ns in (line.split("\t") for line in lines)}


def ucx_messages(transports: str, *launch: str, sizes: tuple[int, ...] = SIZES[:-1], rounds: str = "20000",
                 warm_up: str = "1000") -> dict[int, float]:
    found = {}
    for size in sizes:
        test = ["-t", "tag_lat", "-s", str(size), "-n", rounds, "-w", warm_up]
        output = of_two(lambda port: [*launch, "ucx_perftest", "-p", port],
                        lambda port, test=test: [*launch, "ucx_perftest", "127.0.0.1", "-p", port, *test],
                        UCX_TLS=transports)
        final = next(line for line in output.splitlines() if line.startswith("Final:"))
        found[size] = float(final.split()[2]) * 1000
    return found


def libfabric_messages(provider: str) -> dict[int, float]:
    found = {}
    for size in SIZES[:-1]:
        common = ["fi_pingpong", "-p", provider, "-e", "rdm", "-S", str(size), "-I", "20000"]
        output = of_two(lambda port, common=common: [*common, "-B", port],
                        lambda port, common=common: [*common, "-P", port, "127.0.0.1"])
        # columns: bytes, #sent, #ack, total, time, MB/sec, usec/xfer, Mxfers/sec
        found[size] = float(output.splitlines()[-1].split()[6]) * 1000
    return found


@dataclasses.dataclass(frozen=True)
class Beside:
    """Times of another library for an operation of the device."""
    name: str
    missing: str  # command to install it; empty if it is installed
    operation: str
    measure: Callable[[], dict[int, float]]


def others(build: pathlib.Path) -> list[Beside]:
    no_ucx = "" if (build / "bin" / "ucx_speed").exists() else "install libucx-dev, configure and build again"
    no_tool = {name: "" if shutil.which(name) else f"install {package}"
               for name, package in (("ucx_perftest", "ucx-utils"), ("fi_pingpong", "libfabric-bin"))}
    return [
        Beside("UCX put+flush", no_ucx, "WRITE+FLUSH, private", lambda: ucx_flush(build, "posix,cma")),
        Beside("UCX tcp put+flush", no_ucx, "WRITE+FLUSH, TCP", lambda: ucx_flush(build, "tcp")),
        Beside("UCX tag", no_tool["ucx_perftest"], "SEND", lambda: ucx_messages("posix,cma")),
        Beside("libfabric shm", no_tool["fi_pingpong"], "SEND", lambda: libfabric_messages("shm")),
    ]


class Table:
    def __init__(self) -> None:
        self.values: dict[tuple[Row, str], list[float]] = {}
        self.ours: dict[Row, list[float]] = {}
        self.floors: dict[Row, str] = {}
        self.disturbed: collections.Counter[Row] = collections.Counter()

    def add_device(self, row: Row, ours: float, floor: str, floor_ns: float, disturbed: bool) -> None:
        self.ours.setdefault(row, []).append(ours)
        self.disturbed[row] += disturbed
        if floor:
            self.floors[row] = floor
            self.add(row, floor, floor_ns)

    def add(self, row: Row, name: str, ns: float) -> None:
        self.values.setdefault((row, name), []).append(ns)

    def ratio(self, row: Row, name: str) -> float:
        return statistics.median(ours / other for ours, other in zip(self.ours[row], self.values[row, name]))

    def show(self, names: list[str]) -> bool:
        """Prints the table. Returns false if a row is slower than in the earlier build."""
        held = True
        print(f"{'operation':32} {'bytes':>8} {'ns':>10}  {'beside':18} {'ns':>10} {'ratio':>7}")
        for row, ours in self.ours.items():
            for name in [BEFORE, *names] + ([self.floors[row]] if row in self.floors else []):
                if (row, name) not in self.values:
                    continue
                ratio = self.ratio(row, name)
                slower = name == BEFORE and ratio > LIMIT
                held = held and not slower
                note = "SLOWER" if slower else ""
                if name == self.floors.get(row) and self.disturbed[row]:
                    note = f"disturbed: {self.disturbed[row]} of {len(ours)}"
                print(f"{row[0]:32} {row[1]:8} {statistics.median(ours):10.0f}  {name:18} "
                      f"{statistics.median(self.values[row, name]):10.0f} {ratio:7.2f}  {note}".rstrip())
        return held


def show_threads(build: pathlib.Path, runs: int, no_ucx: str) -> None:
    """Prints times of four threads, each with a queue pair or a worker, and the shares of the slowest threads."""
    commands: list[tuple[str, list[str], dict[str, str]]] = [
        ("device", [str(build / "bin" / "softrdma"), "run", "--", str(build / "bin" / "device_speed"), "threads"], {})]
    if not no_ucx:
        commands.append(("UCX", [str(build / "bin" / "ucx_speed"), "threads"], {"UCX_TLS": "posix,cma"}))
    turns = [[tuple(map(float, run(command, **environment).split())) for _, command, environment in commands]
             for _ in range(runs)]
    print(f"\n{'WRITE+FLUSH, mapped, 4 threads':32} {'bytes':>8} {'ns':>10} {'slowest/fastest':>16} {'device/this':>12}")
    for which, (name, *_) in enumerate(commands):
        size, ns, fairness = (statistics.median(turn[which][n] for turn in turns) for n in range(3))
        ratio = statistics.median(turn[0][1] / turn[which][1] for turn in turns)
        print(f"{name:32} {size:8.0f} {ns:10.0f} {fairness:16.2f} {ratio:12.2f}")


def show_roce(build: pathlib.Path, runs: int) -> None:
    table = Table()
    for _ in range(runs):
        for mtu in INTERFACE_MTUS:
            own_network = ["unshare", "--net", "sh", "-c", f'ip link set lo mtu {mtu} up && exec "$@"', "sh"]
            for measured in of_device(build, "roce", *own_network):
                table.add_device(*measured)
    table.show([])


def argument_parser(description: str, epilog: str, build: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help=build)
    parser.add_argument("--runs", type=positive, default=5, metavar="N", help="turns of each (default: %(default)s)")
    return parser


def positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("at least one")
    return int(text)


def main() -> int:
    parser = argument_parser(__doc__, EPILOG, "a build of type Release, with the tests")
    parser.add_argument("--before", type=pathlib.Path, metavar="BUILD", help="such a build of an earlier commit, measured in turns")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--threads", action="store_true", help="measure only several threads")
    only.add_argument("--roce", action="store_true", help="measure only writes over RoCE")
    options = parser.parse_args()
    for build in filter(None, (options.build, options.before)):
        if not (build / "bin" / "device_speed").exists():
            parser.error(f"{build}: bin/device_speed not found (build the tests)")
    if options.roce:
        show_roce(options.build, options.runs)
        return 0

    table = Table()
    beside = others(options.build)
    no_ucx = beside[0].missing
    if options.threads:
        show_threads(options.build, options.runs, no_ucx)
        return 0
    for absent in (other for other in beside if other.missing):
        print(f"without {absent.name}: {absent.missing}")
    beside = [other for other in beside if not other.missing]
    for _ in range(options.runs):
        for path in ("shm", "tcp"):
            for measured in of_device(options.build, path):
                table.add_device(*measured)
            for row, ns, *_ in of_device(options.before, path) if options.before else ():
                table.add(row, BEFORE, ns)
        for other in beside:
            for size, ns in other.measure().items():
                table.add((other.operation, size), other.name, ns)
    held = table.show([other.name for other in beside])
    show_threads(options.build, options.runs, no_ucx)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
