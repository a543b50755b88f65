# SPDX-License-Identifier: BSD-3-Clause
"""Runs a server and its client until both exit, or ends them."""

import collections
import contextlib
import ctypes
import dataclasses
import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time

from runner import CannotRun, ExampleFailed, UsageError

STATUS_NO_DEVICE = 77
PORTS = range(20000, 32000)  # below the kernel's ephemeral ports
HELD_PORTS: collections.deque[int] = collections.deque()  # sockets
MAX_HELD_PORTS = 100
GRACE_S = 2.0
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


@dataclasses.dataclass(frozen=True)
class Side:
    """Programs of one side: their location and environment."""

    directory: pathlib.Path  # contains NN-topic/client and NN-topic/server
    has_options: bool  # false for programs that accept positional arguments only
    library: pathlib.Path | None = None  # directory of another librpma.so.0
    python: pathlib.Path | None = None  # directory of the package rpma; the programs are scripts

    def variables(self) -> dict[str, str]:
        """Returns the environment variables that the programs need."""
        return {name: str(path) for name, path in (("LD_LIBRARY_PATH", self.library), ("PYTHONPATH", self.python)) if path}

    def environment(self) -> dict[str, str]:
        return os.environ | self.variables()

    def program(self, topic: str, role: str) -> str:
        path = self.directory / topic / (f"{role}.py" if self.python else role)
        if self.python and not (self.python / "rpma").is_dir():
            raise CannotRun(f"{self.python}/rpma not found (install python3-cffi, python3-setuptools and libpython3-dev, then "
                            "configure again)")
        if not os.access(path, os.X_OK):
            remedy = f"{path} not found (build the target example-{topic}-{role}, or specify another directory)"
            raise CannotRun(remedy) if self.has_options else UsageError(remedy)  # 09 needs libprotobuf-c
        if self.library:
            self.check_library(path)
        return str(path)

    def check_library(self, program: pathlib.Path) -> None:
        """Rejects a program that ignores LD_LIBRARY_PATH, because it would use the wrong library."""
        trace = subprocess.run(
            [program], env=self.environment() | {"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, text=True,
            check=False, timeout=30)
        loaded = re.findall(r"^\s*librpma\.so\.0 => (.*) \(0x[0-9a-f]+\)$", trace.stdout, re.MULTILINE)
        if not loaded or pathlib.Path(loaded[0]).parent.resolve() != self.library.resolve():
            raise UsageError(f"{program} does not load librpma.so.0 from {self.library} (specify the directory of the library)")


class Programs:
    """Running programs of all threads, so that the runner can end them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: set["Program"] = set()
        self.is_over = False

    def stop(self) -> None:
        """Ends all programs and prevents new ones."""
        with self.lock:
            self.is_over = True
            programs = list(self.running)
        for program in programs:
            program.stop()


PROGRAMS = Programs()


class Program:
    """A running program whose output is stored, and which is ended with the runner."""

    def __init__(self, command: list[str], environment: dict[str, str], pass_fds: tuple[int, ...] = ()):
        # Files, so that a program with much output is never blocked.
        self.stdout_file = tempfile.TemporaryFile()
        self.stderr_file = tempfile.TemporaryFile()
        with PROGRAMS.lock:
            if PROGRAMS.is_over:
                raise CannotRun("the run was stopped")
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=self.stdout_file, stderr=self.stderr_file,
                pass_fds=pass_fds, preexec_fn=die_with_parent)
            PROGRAMS.running.add(self)

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        with PROGRAMS.lock:
            PROGRAMS.running.discard(self)
        self.stdout_file.close()
        self.stderr_file.close()

    def stop(self) -> None:
        for end in (self.process.terminate, self.process.kill):
            if self.process.poll() is not None:
                return
            end()
            self.wait(GRACE_S)

    def wait(self, timeout_s: float) -> int | None:
        """Returns the exit status, or None if the program still runs."""
        try:
            return self.process.wait(max(timeout_s, 0))
        except subprocess.TimeoutExpired:
            return None

    def output(self) -> tuple[str, str]:
        texts = []
        for file in (self.stdout_file, self.stderr_file):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return texts[0], texts[1]


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of a program. The status is None if it was killed."""

    status: int | None
    stdout: str
    stderr: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    server: Result
    client: Result


def die_with_parent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port(addr: str) -> str:
    """Returns a port that is not returned again, to any process, until many others were. Its server may start later, although the
    port is held: both sockets have SO_REUSEADDR."""
    family = socket.AF_INET6 if ":" in addr else socket.AF_INET
    for port in random.sample(PORTS, 100):
        with socket.socket(family, socket.SOCK_STREAM) as holder:
            try:
                holder.bind((addr, port))  # fails if another process holds the port
            except OSError:
                continue
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            HELD_PORTS.append(holder.detach())
        if len(HELD_PORTS) > MAX_HELD_PORTS:
            os.close(HELD_PORTS.popleft())
        return str(port)
    raise UsageError(f"{addr}: no free port (is it an address of this machine?)")


def wait_until_ready(server: Program, ready_fd: int, timeout_s: float) -> bool:
    """Returns whether the server reported that it is ready. A server that exits closes the descriptor."""
    readable, _, _ = select.select([ready_fd], [], [], timeout_s)
    return bool(readable) and os.read(ready_fd, 256).startswith(b"ready")


def result_of(program: Program, timeout_s: float) -> Result:
    status = program.wait(timeout_s)
    program.stop()
    return Result(status, *program.output())


def result_of_all(programs: list[Program], deadline: float) -> Result:
    """Returns the combined result of programs that ran at the same time: the first failure counts."""
    results = [result_of(program, deadline - time.monotonic()) for program in programs]
    statuses = [result.status for result in results]
    status = None if None in statuses else next((status for status in statuses if status != 0), 0)
    return Result(status, "".join(result.stdout for result in results), "".join(result.stderr for result in results))


def run_all(commands: list[list[str]], side: Side, deadline: float) -> Result:
    with contextlib.ExitStack() as stack:
        return result_of_all([stack.enter_context(Program(command, side.environment())) for command in commands],
                             deadline)


def server_options(client_count: int, timeout_s: str) -> list[str]:
    """Returns the options of a server. A server of one client lacks --clients."""
    return ["--timeout", timeout_s, *(["--clients", str(client_count)] if client_count > 1 else [])]


def run_pair(
    server_command: list[str], client_commands: list[list[str]], server: Side, client: Side, timeout_s: float,
    listens_again: bool = False,
) -> Outcome:
    """Runs a pair from commands without options. All clients start when the server first listens."""
    deadline = time.monotonic() + timeout_s
    step_s = str(max(1, int(timeout_s / 2)))  # programs time out earlier and report the missing event
    ready_fd, server_fd = os.pipe()
    try:
        if server.has_options:
            server_command = [*server_command, "--ready-fd", str(server_fd),
                              *server_options(len(client_commands), step_s)]
        with Program(server_command, server.environment(), (server_fd,)) as server_program:
            os.close(server_fd)
            server_fd = -1
            if client.has_options:
                retry = "0" if server.has_options and not listens_again else step_s
                client_commands = [[*command, "--retry", retry, "--timeout", step_s] for command in client_commands]
            if server.has_options and not wait_until_ready(server_program, ready_fd, timeout_s):
                return Outcome(result_of(server_program, GRACE_S), Result(None, "", "never started"))
            client_result = run_all(client_commands, client, deadline)
            left_s = deadline - time.monotonic() if client_result.status == 0 else GRACE_S
            return Outcome(result_of(server_program, left_s), client_result)
    finally:
        os.close(ready_fd)
        if server_fd >= 0:
            os.close(server_fd)


def run_server_alone(command: list[str], client_count: int, side: Side, timeout_s: float) -> Result:
    """Runs a server whose clients, on another machine, may start earlier or later."""
    options = server_options(client_count, str(int(timeout_s))) if side.has_options else []
    return run_all([command + options], side, time.monotonic() + timeout_s + GRACE_S)


def run_clients_alone(commands: list[list[str]], side: Side, timeout_s: float) -> Result:
    """Runs clients whose server, on another machine, may start earlier or later."""
    limit = str(int(timeout_s))
    options = ["--timeout", limit, "--retry", limit] if side.has_options else []
    return run_all([command + options for command in commands], side, time.monotonic() + timeout_s + GRACE_S)


def check_statuses(outcome: Outcome) -> None:
    for role, result in (("server", outcome.server), ("client", outcome.client)):
        if result.status == STATUS_NO_DEVICE:
            raise CannotRun(result.stderr.strip())
    for role, result in (("client", outcome.client), ("server", outcome.server)):
        if result.status is None:
            raise ExampleFailed(f"the {role} did not exit in time")
        if result.status < 0:
            raise ExampleFailed(f"the {role} died of {signal.Signals(-result.status).name}")
        if result.status > 0:
            raise ExampleFailed(f"the {role} exited with status {result.status}")
