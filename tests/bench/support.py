# SPDX-License-Identifier: BSD-3-Clause
"""Facilities shared by the tests of rpma-bench: running it, and its result files."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from common import directory, is_alive, processes_naming, skip, wait_until  # noqa: E402,F401

PROGRAM = os.environ["RPMA_BENCH"]
LAUNCHER = os.environ["RPMA_SOFTRDMA"]
# Limit for a run that hangs. All workloads take seconds, and a minute on a busy machine with a sanitizer.
LIMIT_S = 600
# The shortest possible point, because the tests check results and not speed.
SHORT = ["--duration", "0.02", "--repeats", "1", "--warm-up", "0", "--report", "none"]


class BenchTest(unittest.TestCase):
    """Runs the command in its own directory."""

    def setUp(self):
        self.place = directory(self, prefix="rpma-bench-")

    def bench(self, *words, before=(), **options):
        return subprocess.run([*before, PROGRAM, *map(str, words)], cwd=self.place, capture_output=True, text=True,
                              timeout=LIMIT_S, check=False, **options)

    def on_softrdma(self, *words):
        """Runs a verb that uses any available device."""
        return self.bench(*words, "--transport", "softrdma")

    def local(self, *words, **options):
        return self.bench("local", "--transport", "softrdma", "--out", "r.json", *SHORT, *words, **options)

    def result(self, name="r.json"):
        return json.loads((self.place / name).read_text())

    def succeeded(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def refused(self, done, status, pattern):
        """Expects one line on stderr that matches, and the exit status."""
        self.assertEqual(done.returncode, status, done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertRegex(lines[0], "^rpma-bench: .*" + pattern)

    @contextlib.contextmanager
    def running(self, *command):
        """A process that is killed at the end by its process ID."""
        process = subprocess.Popen([*map(str, command)], cwd=self.place, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate(timeout=LIMIT_S)

    @contextlib.contextmanager
    def server(self, *words):
        """A server on softrdma, and its port."""
        with self.running(PROGRAM, "server", "--transport", "softrdma", "--port", "0", *words) as process:
            line = process.stdout.readline()
            found = re.fullmatch(r"serving at 127\.0\.0\.1 port (\d+)\n", line)
            self.assertTrue(found, line)
            yield process, found[1]
