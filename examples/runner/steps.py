# SPDX-License-Identifier: BSD-3-Clause
"""The example mirror-steps: SNIA actions on a set with two targets, one by one, with the packets of each."""

import collections
import contextlib
import pathlib
import secrets
import shutil
import subprocess

from runner import CannotRun, ExampleFailed, failover

PROGRAM = "examples/mirror-steps/steps"
OPCODES = {6: "WRITE", 7: "WRITE", 8: "WRITE", 10: "WRITE", 4: "SEND", 12: "READ", 28: "FLUSH", 29: "ATOMIC WRITE"}
MEANING = {
    "MAP": "the set is opened, the previous writer is fenced, and the memory is registered once",
    "OPTIMIZED_FLUSH": "three ranges of 64 bytes are durable on all copies",
    "atomic_write": "a word is stored atomically, after all earlier operations",
    "OPTIMIZED_FLUSH_AND_VERIFY": "a page is durable, and was read back from each target",
    "GET_ERROR_INFO": "a page that cannot be read (simulated) is found: precise, contained, live",
    "repair": "the page is rewritten from target A, and the program continues",
    "UNMAP": "all copies are equal, and their records are clean",
}


def targets(build: pathlib.Path) -> list[str]:
    """Returns missing targets that can be built."""
    missing = [name for name in failover.targets(build) if name != "example-mirror-failover"]
    if (build / "src" / "mirror_tool").is_dir() and not (build / PROGRAM).is_file():
        missing.append("example-mirror-steps")
    if (build / "src" / "softrdma").is_dir() and not (build / "bin" / "softrdma").is_file():
        missing.append("softrdma")
    return missing


def requests(trace: pathlib.Path) -> list[tuple[float, str]]:
    """Returns the time and kind of each request. Without tshark, the packets cannot be shown."""
    if shutil.which("tshark") is None:
        return []
    done = subprocess.run(["tshark", "-r", trace, "-T", "fields", "-e", "frame.time_epoch", "-e", "infiniband.bth.opcode"],
                          capture_output=True, text=True, timeout=failover.LIMIT_S, check=True)
    packets = (line.split() for line in done.stdout.splitlines())
    return [(float(words[0]), OPCODES[int(words[1])]) for words in packets if len(words) == 2 and int(words[1]) in OPCODES]


def show(build: pathlib.Path, place: pathlib.Path, trace: pathlib.Path, stack: contextlib.ExitStack) -> None:
    key = place / "key"
    key.touch(0o600)
    key.write_text(f"writer:{secrets.token_hex(32)}\n")
    sides = [stack.enter_context(failover.Target(build / "bin" / "rpmemd", place / f"target-{name}", key)) for name in "ab"]
    set_file = failover.write_set(place / "machine", 0, key, [side.port for side in sides])
    failover.run(build / "bin" / "rpma-mirror", "create", set_file)
    told = failover.run(build / "bin" / "softrdma", "trace", "-w", trace, "--", build / PROGRAM, set_file)
    sent = requests(trace)
    for number, line in enumerate(told.splitlines(), 1):
        begin, end, name = line.split()
        kinds = collections.Counter(kind for when, kind in sent if float(begin) <= when <= float(end))
        print(f"{number}. {name}: {MEANING[name]}")
        if kinds:
            print("   requests to both targets: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    if not sent:
        print("\ntshark is not installed: packets are not counted")


def run_all(build: pathlib.Path, choice: str, trace: pathlib.Path | None) -> int:
    """Returns 0 if each step succeeded, otherwise 1."""
    for program in (PROGRAM, "bin/rpmemd", "bin/rpma-mirror", "bin/softrdma"):
        if not (build / program).is_file():
            raise CannotRun(f"{build / program} is not built (configure with RPMA_BUILD_RPMEM and RPMA_BUILD_SOFTRDMA)")
    try:
        with failover.scratch_directory(choice) as place, contextlib.ExitStack() as stack:
            show(build, place, trace or place / "trace.pcap", stack)
    except (ExampleFailed, subprocess.SubprocessError) as failure:
        print(f"\nFAILED: {failure}")
        return 1
    if trace is not None:
        print(f"\nThe packets are in {trace}: tshark -r {trace}")
    print("\nok: each step succeeded")
    return 0
