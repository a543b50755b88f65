# SPDX-License-Identifier: BSD-3-Clause
"""Functions shared by the tests of the examples: the build under test, its programs, and modules of the runner."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["EXAMPLES_BUILD_DIR"])
RUNNER = ROOT / "examples" / "run"
ADDR = "127.0.0.1"
TIMEOUT_S = 300

sys.path[:0] = [str(RUNNER.parent), str(ROOT / "tests" / "support")]

from common import directory, execute, processes_naming, skip, wait_until  # noqa: E402,F401
from runner.catalogue import EXAMPLES, Run  # noqa: E402
from runner.pair import Outcome, Program, Result, Side, free_port, run_pair  # noqa: E402
from runner.storage import VOLATILE, Storage  # noqa: E402

CATALOGUE = {example.number: example for example in EXAMPLES}
TOPICS = {number: example.topic for number, example in CATALOGUE.items()}
DRAM = Run(Storage("DRAM", None, None, 0, VOLATILE), False)
SOFTRDMA = [str(BUILD / "bin" / "softrdma"), "run", "--"]
LOG = str(BUILD / "examples" / "log" / "log")
HERE = Side(BUILD / "examples", has_options=True)


def program(number: str, role: str) -> str:
    return str(BUILD / "examples" / TOPICS[number] / role)


def operands(number: str, role: str) -> list[str]:
    """Returns the operands that the runner uses without a file; those of the first client if there are several."""
    example = CATALOGUE[number]
    return (example.server_operands if role == "server" else example.client_operands)(DRAM)


def debian_library() -> pathlib.Path | None:
    """Returns the directory of Debian's librpma.so.0: RPMA_DEBIAN_LIBDIR, or the result of utils/fetch-debian-librpma."""
    chosen = os.environ.get("RPMA_DEBIAN_LIBDIR")
    directories = [pathlib.Path(chosen)] if chosen else BUILD.glob("debian/unpacked/usr/lib/*")
    return next((directory for directory in directories if (directory / "librpma.so.0").exists()), None)


def on_softrdma(number: str, role: str, *arguments: str) -> subprocess.CompletedProcess:
    """Runs one program until it exits."""
    return execute([*SOFTRDMA, program(number, role), *arguments])


def run_examples(*arguments: str, **options: object) -> subprocess.CompletedProcess:
    return execute([str(RUNNER), "--build", str(BUILD), "--transport", "softrdma", *arguments], **options)


def pair(server: str, client: str, server_operands: tuple[str, ...] = (), client_operands: tuple[str, ...] = (),
         timeout_s: float = 60, side: Side = HERE) -> Outcome:
    """Runs the server of one example with the client of the same or another example."""
    port = free_port(ADDR)
    return run_pair([*SOFTRDMA, program(server, "server"), ADDR, port, *server_operands],
                    [[*SOFTRDMA, program(client, "client"), ADDR, port, *client_operands]], side, side, timeout_s)


def write_script(path: pathlib.Path, text: str) -> pathlib.Path:
    """Writes an executable shell script, in a new directory if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@contextlib.contextmanager
def pmem_file(size: int = 64 * 1024) -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory(prefix="rpma-examples-test-", dir="/var/tmp") as directory:
        path = pathlib.Path(directory) / "file.pmem"
        with open(path, "wb") as file:
            file.truncate(size)
        yield path


class ExamplesTest(unittest.TestCase):
    def assert_status(self, result: Result | subprocess.CompletedProcess, status: int) -> None:
        actual = result.returncode if isinstance(result, subprocess.CompletedProcess) else result.status
        self.assertEqual(status, actual, f"\n{result.stdout}\n{result.stderr}")

    def assert_success(self, outcome: Outcome) -> None:
        self.assert_status(outcome.client, 0)
        self.assert_status(outcome.server, 0)

    def start(self, number: str, role: str, *arguments: str) -> Program:
        """Starts a program whose output is not buffered. It is ended with the test."""
        command = ["stdbuf", "-oL", *SOFTRDMA, program(number, role), ADDR, *arguments]
        return self.enterContext(Program(command, HERE.environment()))

    def start_server(self, number: str, *options: str) -> tuple[Program, str]:
        """Starts a server and waits until it listens. Returns its port, too."""
        port = free_port(ADDR)
        server = self.start(number, "server", port, *options)
        wait_until(lambda: "listening" in server.output()[1])
        return server, port

    def assert_one_line(self, text: str, *words: str) -> None:
        lines = text.splitlines()
        self.assertEqual(1, len(lines), text)
        for word in words:
            self.assertIn(word, lines[0])

    def assert_last_line(self, result: Result | subprocess.CompletedProcess, status: int, *words: str) -> None:
        """Checks the exit status, and that the last line on standard error has the words."""
        self.assert_status(result, status)
        self.assert_one_line(result.stderr.splitlines()[-1], *words)

    def assert_failure(self, result: Result | subprocess.CompletedProcess, status: int, *words: str) -> None:
        """Checks the exit status, and that one line with the words is on standard error."""
        self.assert_status(result, status)
        self.assert_one_line(result.stderr, *words)


def main(missing: str | None = None) -> None:
    """Runs the tests of the calling file, or skips all of them if a prerequisite is missing."""
    if missing:
        skip(missing)
    unittest.main(verbosity=2)
