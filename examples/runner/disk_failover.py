# SPDX-License-Identifier: BSD-3-Clause
"""The example disk-failover: a guest commits transactions to a database on a mirrored set. The machine that serves the disk is
killed, and another one continues. All machines are simulated on this one, each with its own files."""

import contextlib
import json
import pathlib
import queue
import secrets
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import urllib.parse

from runner import CannotRun, ExampleFailed, failover, guest
from runner.failover import LIMIT_S, Process, Target, Timeline, run

PLUGIN = "lib/nbdkit-rpma-mirror-plugin.so"
INIT = pathlib.Path(__file__).resolve().parent.parent / "disk-failover" / "init"
COMMIT_LIMIT_S = 90  # limit between two transactions
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "nbdkit": "nbdkit", "sqlite3": "sqlite3",
            "mke2fs": "e2fsprogs", "e2fsck": "e2fsprogs", "debugfs": "e2fsprogs"}


def targets(build: pathlib.Path) -> list[str]:
    """Returns missing targets that can be built."""
    missing = [name for name in failover.targets(build) if name != "example-mirror-failover"]
    if (build / "src" / "nbdkit" / "CMakeFiles" / "nbdkit_rpma_mirror.dir").is_dir() and not (build / PLUGIN).is_file():
        missing.append("nbdkit_rpma_mirror")
    return missing


def last_line(log: pathlib.Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "no message"


class Disk(Process):
    """nbdkit with the plugin. All machines use the same socket, like a virtual IP address that follows the disk."""

    def __init__(self, build: pathlib.Path, set_file: pathlib.Path, address: pathlib.Path):
        self.log = set_file.parent / "nbdkit-log"
        address.unlink(missing_ok=True)
        with open(self.log, "ab") as log:
            super().__init__("nbdkit", "-f", "-U", address, build / PLUGIN, f"set={set_file}", stderr=log)
        self.await_answer(address)

    def await_answer(self, address: pathlib.Path) -> None:
        """nbdkit listens before it opens the set, and responds afterwards."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end and self.process.poll() is None:
            with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
                client.settimeout(LIMIT_S)
                client.connect(str(address))
                if client.recv(8) == b"NBDMAGIC":
                    return
            time.sleep(0.02)
        raise ExampleFailed(f"nbdkit does not serve the disk: {last_line(self.log)}")

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(LIMIT_S) != 0:
            raise ExampleFailed(f"nbdkit did not end cleanly: {last_line(self.log)}")


class Guest(Process):
    """QEMU, and the lines that the guest prints on its console."""

    def __init__(self, command: list[str], log: pathlib.Path):
        self.log = log
        with open(log, "ab") as errors:
            super().__init__(*command, stderr=errors, errors="replace")
        self.committed: list[int] = []
        self.reports: "queue.Queue[str]" = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def kill(self) -> None:
        super().kill()
        self.reader.join()

    def read(self) -> None:
        for line in self.process.stdout:
            kind, _, rest = line.strip().partition(" ")
            if kind == "committed":
                self.committed.append(int(rest))
            elif kind == "guest:":
                self.reports.put(rest)
        self.reports.put("")

    def await_report(self, wanted: str, limit_s: float) -> bool:
        """Returns false if the guest did not report within the limit."""
        try:
            report = self.reports.get(timeout=limit_s)
        except queue.Empty:
            return False
        if report != wanted:
            raise ExampleFailed(f"the guest {report or f'ended: {last_line(self.log)}'}")
        return True

    def await_commits(self, wanted: int) -> None:
        before, end = -1, 0.0
        while len(self.committed) < wanted:
            if len(self.committed) != before:
                before, end = len(self.committed), time.monotonic() + COMMIT_LIMIT_S
            if not self.reports.empty():
                raise ExampleFailed(f"the guest {self.reports.get() or f'ended: {last_line(self.log)}'}")
            if time.monotonic() > end:
                raise ExampleFailed(f"the guest committed {before} transactions, and none in the next {COMMIT_LIMIT_S} s")
            time.sleep(0.01)


def boot(command: list[str], log: pathlib.Path, line: Timeline, stack: contextlib.ExitStack) -> Guest:
    for accelerators, limit_s in guest.boots():
        machine = stack.enter_context(Guest([*command, *accelerators], log))
        if machine.await_report("mounted", limit_s):
            return machine
        machine.kill()
        line.say("guest", f"did not boot within {limit_s} s, and is booted again")
    raise ExampleFailed(f"the guest did not boot in {len(guest.boots())} attempts")


def make_file_system(uri: str, place: pathlib.Path) -> None:
    size = json.loads(run("qemu-img", "info", "--output=json", "-f", "raw", uri))["virtual-size"]
    image = place / "image"
    with open(image, "wb") as file:
        file.truncate(size)
    run(guest.find("mke2fs"), "-q", "-F", "-t", "ext4", image)
    run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, uri)
    image.unlink()


def missing_entries(uri: str, place: pathlib.Path, committed: list[int]) -> list[int]:
    """Returns the transactions that the guest reported as committed and the database lacks. Checks the file system, too."""
    image = place / "image"
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", uri, image)
    checked = subprocess.run([guest.find("e2fsck"), "-f", "-n", str(image)], stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, timeout=LIMIT_S, check=False)
    if checked.returncode != 0:
        raise ExampleFailed(f"e2fsck found errors: {(checked.stdout.strip().splitlines() or ['no message'])[-1]}")
    subprocess.run([guest.find("debugfs"), "-R", "dump /database database", "image"], cwd=place, stdin=subprocess.DEVNULL,
                   capture_output=True, timeout=LIMIT_S, check=True)
    with contextlib.closing(sqlite3.connect(place / "database")) as database:
        try:
            integrity = database.execute("PRAGMA integrity_check").fetchone()[0]
            entries = {number for number, in database.execute("SELECT number FROM entries")}
            total = database.execute("SELECT count FROM total").fetchone()[0]
        except sqlite3.Error as problem:
            raise ExampleFailed(f"the database cannot be read: {problem}") from problem
    if integrity != "ok" or total != len(entries):
        raise ExampleFailed(f"the database is inconsistent: {integrity}, {len(entries)} entries, count {total}")
    return sorted(set(committed) - entries)


def show(build: pathlib.Path, place: pathlib.Path, unpacked: pathlib.Path, transactions: int, stack: contextlib.ExitStack) -> bool:
    """Runs the events step by step. Returns whether all committed transactions exist."""
    tool, key = build / "bin" / "rpma-mirror", place / "key"
    key.touch(0o600)
    key.write_text(f"writer:{secrets.token_hex(32)}\n")
    # The path of a socket is limited to 107 bytes.
    address = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rpma-disk-", dir="/tmp"))) / "disk"
    uri = f"nbd+unix:///?socket={urllib.parse.quote(str(address))}"
    initramfs = place / "initramfs"
    initramfs.write_bytes(guest.make_initramfs(unpacked, INIT, [guest.find("sqlite3")]))
    line = Timeline()
    target = stack.enter_context(Target(build / "bin" / "rpmemd", place / "target", key))
    first = failover.write_set(place / "machine-1", 0, key, [target.port])
    second = failover.write_set(place / "machine-2", 2, key, [target.port])
    run(tool, "create", first)
    line.say("machine 2", f"keeps a copy of the set: rpmemd on port {target.port}")
    disk = stack.enter_context(Disk(build, first, address))
    make_file_system(uri, place)
    line.say("machine 1", "keeps the other copy, and nbdkit serves the set as a disk with ext4")
    qemu = guest.command(unpacked, initramfs, address, LIMIT_S, f"transactions={transactions}")
    machine = boot(qemu, place / "qemu-log", line, stack)
    line.say("guest", "has mounted the disk, and commits transactions to an SQLite database")
    machine.await_commits(transactions // 2)
    disk.kill()
    stopped, count = time.monotonic(), len(machine.committed)
    line.say("machine 1", f"nbdkit is KILLED, after {count} committed transactions")
    disk = stack.enter_context(Disk(build, second, address))
    line.say("machine 2", "nbdkit promoted the set, and serves the disk at the same address")
    machine.await_commits(min(len(machine.committed) + 1, transactions))
    line.say("guest", f"continues without an error, after a pause of {time.monotonic() - stopped:.1f} s")
    machine.await_commits(transactions)
    if not machine.await_report("unmounted", LIMIT_S):
        raise ExampleFailed(f"the guest did not unmount the disk within {LIMIT_S} s")
    machine.process.wait(LIMIT_S)
    line.say("guest", f"has committed {len(machine.committed)} transactions, and is off")
    missing = missing_entries(uri, place, machine.committed)
    line.say("machine 2", "e2fsck: the file system is clean; SQLite: the database is consistent")
    line.say("machine 2", f"counts: {len(machine.committed)} transactions were committed, {len(missing)} missing")
    disk.end()
    return not missing


def run_all(build: pathlib.Path, choice: str, transactions: int, cache: pathlib.Path) -> int:
    """Returns 0 if all committed transactions exist, 1 if one is missing or a step failed."""
    if not (build / PLUGIN).is_file():
        raise CannotRun(f"{build / PLUGIN} is not built (install nbdkit-plugin-dev and libxxhash-dev, and configure again)")
    guest.need(PROGRAMS)
    try:
        unpacked = guest.fetch(cache)
        with failover.scratch_directory(choice, "disk-failover") as place, contextlib.ExitStack() as stack:
            whole = show(build, place, unpacked, transactions, stack)
    except (ExampleFailed, OSError, subprocess.SubprocessError) as failure:
        print(f"\nFAILED: {failure}")
        return 1
    print("\nok: each committed transaction exists" if whole else "\nFAILED: committed transactions are missing")
    return 0 if whole else 1
