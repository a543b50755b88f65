# SPDX-License-Identifier: BSD-3-Clause
"""The example mirror-failover: a writer loses one of its two targets, then is killed, and another machine continues. All
machines are simulated on this one, each with its own files."""

import contextlib
import pathlib
import queue
import re
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator

from runner import CannotRun, ExampleFailed, UsageError, storage
from runner.pair import die_with_parent

LENGTH_MIB = 32
LIMIT_S = 60
PUTS_BEFORE, PUTS_BETWEEN = 100, 100
KEYS = 100


def targets(build: pathlib.Path) -> list[str]:
    """Returns missing targets that can be built."""
    wanted = {"example-mirror-failover": build / "examples" / "mirror-failover" / "kv-log",
              "rpmemd": build / "bin" / "rpmemd", "rpma-mirror": build / "bin" / "rpma-mirror"}
    missing = [target for target, program in wanted.items() if not program.is_file()]
    if not any((build / "lib").glob("libsoftrdma.so*")) and (build / "src" / "softrdma").is_dir():
        missing.append("softrdma_device")
    return missing if (build / "src" / "mirror_tool").is_dir() else []


class Timeline:
    def __init__(self) -> None:
        self.begun = time.monotonic()

    def say(self, who: str, text: str) -> None:
        print(f"{time.monotonic() - self.begun:7.2f} s  {who:<9} {text}", flush=True)


class Process:
    """A program that is ended with this one."""

    def __init__(self, *command: object, **options: object):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        text=True, preexec_fn=die_with_parent, **options)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def first_line(self) -> str:
        return self.process.stdout.readline()


class Target(Process):
    """rpmemd with a copy."""

    def __init__(self, daemon: pathlib.Path, place: pathlib.Path, key: pathlib.Path, port: str = "0"):
        self.words = (daemon, place, key)
        place.mkdir(exist_ok=True)
        pool_set = place / "copy.set"
        pool_set.write_text(f"PMEMPOOLSET\nOPTION NOHDRS\n{LENGTH_MIB}M {place}/copy.part\n")
        pool_set.chmod(0o600)
        super().__init__(daemon, "--listen", f"127.0.0.1:{port}", "--key-file", key, "--poolset-dir", place,
                         "--log-file", place / "log")
        found = re.fullmatch(r"rpmemd: listening on 127\.0\.0\.1 port (\d+)\n", self.first_line())
        if not found:
            raise ExampleFailed(f"rpmemd did not start (see {place}/log)")
        self.port = found[1]

    def again(self) -> "Target":
        return Target(*self.words, self.port)


class Writer(Process):
    """kv-log put, and the puts that a client knows to be acknowledged."""

    def __init__(self, program: pathlib.Path, set_file: pathlib.Path, without_flush: bool):
        super().__init__(program, "put", set_file, *(["--without-flush"] if without_flush else []))
        self.acknowledged = 0
        self.news: "queue.Queue[str]" = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        for line in self.process.stdout:
            if line.startswith("put "):
                self.acknowledged = int(line.split()[1])
            else:
                self.news.put(line.strip())
        self.news.put("")

    def await_news(self, wanted: str) -> None:
        try:
            while (line := self.news.get(timeout=LIMIT_S)) != wanted:
                if not line:
                    raise ExampleFailed("the writer ended")
        except queue.Empty:
            raise ExampleFailed(f"the writer did not print '{wanted}' within {LIMIT_S} s") from None

    def await_puts(self, more: int) -> int:
        wanted, end = self.acknowledged + more, time.monotonic() + LIMIT_S
        while self.acknowledged < wanted:
            if self.process.poll() is not None or time.monotonic() > end:
                raise ExampleFailed(f"the writer acknowledged {self.acknowledged} puts, and then none")
            time.sleep(0.01)
        return self.acknowledged

    def end(self) -> int:
        """Kills the writer. Returns the number of acknowledged puts."""
        self.kill()
        self.reader.join()
        return self.acknowledged


def run(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_S, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise ExampleFailed(done.stderr.strip() or done.stdout.strip())
    return done.stdout


def lost_keys(listed: str, acknowledged: int) -> list[str]:
    """Returns the keys without their last acknowledged value or a later one."""
    values = dict(line.split() for line in listed.splitlines() if line.startswith("key-"))
    lost = []
    for number in range(max(1, acknowledged - KEYS + 1), acknowledged + 1):
        key = f"key-{number % KEYS:02}"
        if int(values.get(key, "value-0").removeprefix("value-")) < number:
            lost.append(key)
    return lost


def write_set(place: pathlib.Path, copy: int, key: pathlib.Path, ports: list[str]) -> pathlib.Path:
    place.mkdir()
    lines = [f"target {number} 127.0.0.1:{port} copy.set" for number, port in enumerate(ports, 1)]
    (place / "mirror.set").write_text("\n".join(
        ["RPMAMIRROR", f"local {copy} {place}/copy {LENGTH_MIB}M", f"key-file {key}", "device softrdma", *lines]) + "\n")
    return place / "mirror.set"


def show(build: pathlib.Path, place: pathlib.Path, without_flush: bool, stack: contextlib.ExitStack) -> bool:
    """Runs the events step by step. Returns whether all acknowledged puts exist."""
    program, tool = build / "examples" / "mirror-failover" / "kv-log", build / "bin" / "rpma-mirror"
    daemon, key = build / "bin" / "rpmemd", place / "key"
    key.touch(0o600)
    key.write_text(f"writer:{secrets.token_hex(32)}\n")
    line = Timeline()
    a = stack.enter_context(Target(daemon, place / "target-a", key))
    b = stack.enter_context(Target(daemon, place / "target-b", key))
    line.say("targets", f"A and B keep a copy each: rpmemd on ports {a.port} and {b.port}")
    first = write_set(place / "machine-1", 0, key, [a.port, b.port])
    second = write_set(place / "machine-2", 3, key, [a.port, b.port])
    run(tool, "create", first)
    writer = stack.enter_context(Writer(program, first, without_flush))
    writer.await_news("open")
    line.say("machine 1", "the writer opened the set, and puts one key after the other")
    count = writer.await_puts(PUTS_BEFORE)
    b.kill()
    line.say("target B", f"is KILLED, after {count} acknowledged puts")
    if not without_flush:
        writer.await_news("copy 2 left the set")
        line.say("machine 1", "B was evicted: the record is durable on A, and the writer continues with A")
    writer.await_puts(PUTS_BETWEEN)
    acknowledged = writer.end()
    line.say("machine 1", f"the writer is KILLED, after {acknowledged} acknowledged puts")
    stack.enter_context(b.again())
    line.say("target B", "is restarted without the data that it missed")
    report = run(tool, "promote", second)
    line.say("machine 2", "rpma-mirror promote opens the set:")
    for text in report.splitlines():
        line.say("", f"  {text}")
    listed = run(program, "list", second)
    lost = lost_keys(listed, acknowledged)
    found = int(re.search(r"^puts (\d+)$", listed, re.MULTILINE)[1])
    missing = max(acknowledged - found, len(lost))
    line.say("machine 2", f"counts: {acknowledged} puts were acknowledged, {found} exist, {missing} missing")
    run(tool, "status", second)
    line.say("machine 2", "all copies are in sync again: A, B and that of machine 2")
    return missing == 0


@contextlib.contextmanager
def scratch_directory(choice: str, name: str = "mirror-failover") -> Iterator[pathlib.Path]:
    directory = storage.best_directory() if choice == "auto" else pathlib.Path(choice).absolute()
    if not directory.is_dir():
        raise UsageError(f"{directory}: not a directory (copies are files in a directory)")
    if len(str(directory).split()) > 1:
        raise UsageError(f"'{directory}': blanks separate the words of a set file (choose another --pmem)")
    try:
        scratch = tempfile.TemporaryDirectory(prefix=f"{name}-", dir=directory)
    except OSError as error:
        raise UsageError(f"{directory}: cannot create files: {error.strerror} (choose another --pmem)") from error
    with scratch as made:
        place = pathlib.Path(made)
        print(f"Copies:  {storage.describe(place, f'files created in {directory}')[0]}\n")
        yield place


def run_all(build: pathlib.Path, choice: str, without_flush: bool) -> int:
    """Returns 0 if all acknowledged puts exist, 1 if one is missing or a step failed."""
    lacking = [program for program in ("examples/mirror-failover/kv-log", "bin/rpmemd", "bin/rpma-mirror")
               if not (build / program).is_file()]
    if lacking:
        raise CannotRun(f"{build / lacking[0]} is not built (configure with RPMA_BUILD_RPMEM)")
    try:
        with scratch_directory(choice) as place, contextlib.ExitStack() as stack:
            whole = show(build, place, without_flush, stack)
    except (ExampleFailed, subprocess.TimeoutExpired) as failure:
        print(f"\nFAILED: {failure}")
        return 1
    print("\nok: nothing that was acknowledged is missing" if whole else "\nFAILED: acknowledged puts are missing")
    return 0 if whole else 1
