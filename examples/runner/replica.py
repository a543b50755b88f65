# SPDX-License-Identifier: BSD-3-Clause
"""The programs of remote-replica on librpmem, with a replica on this machine, started without ssh."""

import os
import pathlib
import re
import subprocess
import tempfile

from runner import CannotRun, UsageError, storage

TARGET = "local:"
PART_MIB = 40
TIMEOUT_S = 120
OPENED = re.compile(r"replica (\S+) on .*: opened: \d+ lanes?, method \d, level (\d)")
LEVELS = {
    "0": "0, volatile: gone with the power",
    "1": "1, an ordinary file: written back before a call returns",
    "2": "2, persistent memory: flushed from the caches before a call returns",
    "3": "3, persistent memory that writes reach past the caches",
    "4": "4, persistent memory, flushed by the network",
}
# Name, operands after target and set, and required output of each run.
PROGRAMS = (
    ("basic", (), ("read back and equal",)),
    ("hello", (), ("written: Hello, world!", "found:   Hello, world!")),
    ("log-and-drain", ("1000",), ("records: 1000", "records: 2000")),
    ("open-persist-close", (), ("persisted 33550336 bytes", "persisted 33550336 bytes")),
)


def targets(build: pathlib.Path) -> list[str]:
    """Returns the missing programs, daemon and software device that can be built."""
    place = build / "examples" / "remote-replica"
    known = [name for name, _, _ in PROGRAMS if (place / "CMakeFiles" / f"example-remote-replica-{name}.dir").is_dir()]
    missing = [f"example-remote-replica-{name}" for name in known if not (place / name).is_file()]
    if not (build / "bin" / "rpmemd").is_file() and (build / "src" / "rpmemd").is_dir():
        missing.append("rpmemd")
    if not any((build / "lib").glob("libsoftrdma.so*")) and (build / "src" / "softrdma").is_dir():
        missing.append("softrdma_device")
    return missing


def run_one(program: pathlib.Path, words: list[str], environment: dict[str, str], wanted: str) -> str:
    """Returns the error, or an empty string."""
    try:
        done = subprocess.run([str(program), *words], env=environment, capture_output=True, text=True, errors="replace",
                              timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"not ended after {TIMEOUT_S} s"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return "" if wanted in done.stdout else f"printed '{done.stdout.strip()}', not '{wanted}'"


def run_all(build: pathlib.Path, choice: str) -> int:
    """Prints a line for each program, and the location of the replica. Returns 0, or 1 if a program failed."""
    directory = storage.best_directory() if choice == "auto" else pathlib.Path(choice).absolute()
    if not directory.is_dir():
        raise UsageError(f"{directory}: not a directory (replicas are files in a directory)")
    programs, daemon = build / "examples" / "remote-replica", build / "bin" / "rpmemd"
    if not (programs / "basic").is_file() or not daemon.is_file():
        raise CannotRun(f"{programs}/basic or {daemon} is not built (configure with RPMA_BUILD_RPMEM)")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="rpmem-examples-", dir=directory) as scratch:
        place = pathlib.Path(scratch)
        log = place / "library.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RPMEM_")} | {
            "RPMEM_CMD": f"exec '{daemon}' --poolset-dir '{place}' --log-file '{place}/daemon.log'",
            "RPMEM_LOG_LEVEL": "3", "RPMEM_LOG_FILE": str(log)}
        print(f"Target:   {TARGET}, this machine without ssh")
        print(f"Replica:  {storage.describe(place, f'files created in {directory}')[0]}\n")
        for name, operands, outputs in PROGRAMS:
            set_file = place / f"{name}.set"
            set_file.write_text(f"PMEMPOOLSET\n{PART_MIB}M {place}/{name}.part\n")
            set_file.chmod(0o600)
            faults = [run_one(programs / name, [TARGET, set_file.name, *operands], environment, wanted)
                      for wanted in outputs]
            levels = {level for of, level in OPENED.findall(log.read_text() if log.exists() else "") if of == set_file.name}
            if not levels:
                faults.append("the log of librpmem does not name the replica and its level")
            fault = next(filter(None, faults), "")
            failed += bool(fault)
            proved = f"{outputs[-1]}; level {', '.join(LEVELS[level] for level in sorted(levels))}"
            print(f"{'FAIL' if fault else 'ok':<5} {name:<20} {fault or proved}")
    print(f"\n{len(PROGRAMS) - failed} of {len(PROGRAMS)} programs succeeded")
    return 1 if failed else 0
