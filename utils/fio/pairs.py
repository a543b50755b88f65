# SPDX-License-Identifier: BSD-3-Clause
"""Runs a fio server and a fio client with the jobs of src/fio/jobs on the software device."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

from runner.pair import Program, Result, free_port, result_of  # noqa: E402,F401

JOBS = ROOT / "src" / "fio" / "jobs"
ADDRESS = "127.0.0.1"
START_S = 10
GRACE_S = 10


@dataclasses.dataclass(frozen=True)
class Fio:
    """A fio program, the engines that it loads (None: built-in), and the location of librpma and softrdma."""

    program: pathlib.Path | str
    engines: pathlib.Path | None
    library: pathlib.Path
    softrdma: pathlib.Path
    variables: dict[str, str] = dataclasses.field(default_factory=dict)  # additional environment variables

    def engine(self, name: str) -> str:
        return f"external:{self.engines}/{name}.so" if self.engines else name

    def environment(self) -> dict[str, str]:
        return os.environ | {"LD_LIBRARY_PATH": str(self.library)} | self.variables

    def command(self, *arguments: str) -> list[str]:
        return [str(self.softrdma), "run", "--", str(self.program), *arguments]


def edited(job: str, values: dict[str, object]) -> str:
    """Returns a job file with changed values. Removes a line if its value is None. Adds a new line to the last section."""
    for key, value in values.items():
        line = "" if value is None else key if value is True else f"{key}={value}"
        job, count = re.subn(rf"^{key}(=.*)?$", line, job, flags=re.MULTILINE)
        job += "" if count else f"{line}\n"
    return job


class Job:
    """One side, which runs until the `with` statement ends."""

    def __init__(self, fio: Fio, method: str, side: str, values: dict[str, object], directory: pathlib.Path):
        self.port = values["port"]
        file = directory / f"{method}-{side}.fio"
        values = {"ioengine": fio.engine(f"librpma_{method}_{side}"), **values}
        file.write_text(edited((JOBS / file.name).read_text(encoding="utf-8"), values), encoding="utf-8")
        self.program = Program(
            fio.command("--output-format=json", f"--output={directory}/{side}.json", "--eta=never", str(file)),
            fio.environment())

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *details: object) -> None:
        self.program.__exit__(*details)

    def wait_until_listening(self) -> None:
        """Waits for a TCP listener, because fio's own engines do not report that they listen."""
        deadline = time.monotonic() + START_S
        while self.program.process.poll() is None and time.monotonic() < deadline:
            if is_listening(int(self.port)):
                return
            time.sleep(0.02)

    def result(self, timeout_s: float) -> Result:
        return result_of(self.program, timeout_s)


def is_listening(port: int) -> bool:
    """Returns whether a TCP listener exists; the software device has one for each RDMA listener."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text(encoding="ascii").splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


def log_of(directory: pathlib.Path, side: str) -> str:
    """Returns the content of fio's --output file: messages and report."""
    with contextlib.suppress(FileNotFoundError):
        return (directory / f"{side}.json").read_text(encoding="utf-8")
    return ""


def report_of(directory: pathlib.Path, side: str) -> dict:
    """Returns the report of fio's first job, or an empty dictionary."""
    text = log_of(directory, side)
    try:
        return json.loads(text[text.index("{"):])["jobs"][0]  # fio writes messages before the JSON
    except (ValueError, LookupError):
        return {}


@dataclasses.dataclass(frozen=True)
class Run:
    server: Result
    client: Result
    client_report: dict
    server_log: str


def run_pair(method: str, server: Fio, client: Fio, server_values: dict | None = None,
             client_values: dict | None = None, timeout_s: float = 60) -> Run:
    """Runs both sides until they exit, or stops them at the time limit."""
    place = {"serverip": ADDRESS, "port": free_port(ADDRESS)}
    with tempfile.TemporaryDirectory(prefix="librpma-fio-") as name:
        directory = pathlib.Path(name)
        with Job(server, method, "server", place | (server_values or {}), directory) as server_job:
            server_job.wait_until_listening()
            with Job(client, method, "client", place | (client_values or {}), directory) as client_job:
                client_result = client_job.result(timeout_s)
            server_result = server_job.result(GRACE_S)
            return Run(server_result, client_result, report_of(directory, "client"), log_of(directory, "server"))
