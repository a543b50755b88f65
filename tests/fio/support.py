# SPDX-License-Identifier: BSD-3-Clause
"""Facilities shared by the tests: fio with the external engines, fio with its own, and pairs of them."""

import os
import pathlib
import shlex
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "utils" / "fio"))

from pairs import (  # noqa: E402,F401
    ADDRESS, Fio, Job, Program, Run, free_port, is_listening, report_of, result_of, run_pair)
from trees import ENGINES as IN_TREE_ENGINES  # noqa: E402,F401
from trees import library_variable  # noqa: E402

PREFIX = pathlib.Path(os.environ["FIO_PREFIX"])
MUTANTS = pathlib.Path(os.environ["FIO_MUTANTS"])
LIBRARY = library_variable(PREFIX, "libdir")
SOFTRDMA = PREFIX / "bin" / "softrdma"
IN_TREE = Fio(
    subprocess.run([*shlex.split(os.environ["FIO_IN_TREE"]), "--build-only"], stdout=subprocess.PIPE, text=True, check=True,
                   timeout=600).stdout.strip(), None, LIBRARY, SOFTRDMA)
ENGINES = [*IN_TREE_ENGINES, "librpma_aof_client", "librpma_aof_server"]
METHODS = ("apm", "gpspm")  # methods of fio itself
MODES = ("sw", "hw")  # modes of the append-only file
COUNT = 64
SIZE = COUNT * 4096
APPEND_SIZE = SIZE + 4096  # the data, and the pointer behind it
# A fixed number of writes instead of a minute of them, with sleeps between them, because other tests need the processor.
SHORT = {"time_based": None, "ramp_time": None, "runtime": None, "number_ios": COUNT, "size": SIZE,
         "busy_wait_polling": 0}
DEEP = SHORT | {"sync": None, "iodepth": 16, "iodepth_batch_submit": 4}
SERVER = {"size": SIZE, "iodepth": 16, "busy_wait_polling": 0}


def version(fio: Fio) -> str:
    return subprocess.run([fio.program, "--version"], env=fio.environment(), capture_output=True, text=True, check=False,
                          timeout=60).stdout.strip()


def external(program: str) -> Fio:
    return Fio(program, LIBRARY / "fio", LIBRARY, SOFTRDMA)


def matching_fio() -> str:
    """Returns the system's fio if the engines were built for its version, otherwise the one built from source."""
    system = os.environ["FIO_PROGRAM"]
    return system if os.access(system, os.X_OK) and version(external(system)) == version(IN_TREE) else IN_TREE.program


EXTERNAL = external(matching_fio())


def run(method: str, server: Fio = EXTERNAL, client: Fio = EXTERNAL, client_values: dict | None = None,
        server_values: dict | None = None, timeout_s: float = 60) -> Run:
    return run_pair(method, server, client, SERVER | (server_values or {}), SHORT | (client_values or {}), timeout_s)


def peer(script: str, *arguments: object) -> Program:
    """Starts a peer of an engine: a program in this directory."""
    path = pathlib.Path(__file__).with_name(script)
    command = [str(SOFTRDMA), "run", "--", sys.executable, str(path), *map(str, arguments)]
    return Program(command, EXTERNAL.environment())


class FioTest(unittest.TestCase):
    def assert_succeeds(self, run: Run) -> None:
        for side, result in (("server", run.server), ("client", run.client)):
            self.assertEqual(0, result.status, f"the {side}:\n{result.stdout}\n{result.stderr}")
        self.assertEqual(0, run.client_report.get("error"), run.client)

    def assert_one_line(self, text: str, engine: str, *words: str) -> None:
        """Checks the line of the engine. fio prints lines of its own, too."""
        lines = [line for line in text.splitlines() if line.startswith(f"{engine}: ")]
        lines = [line for line in lines if " listening on " not in line and " volatile memory" not in line]
        self.assertEqual(1, len(lines), text)
        for word in words:
            self.assertIn(word, lines[0])
