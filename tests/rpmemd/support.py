# SPDX-License-Identifier: BSD-3-Clause
"""Facilities shared by the tests of rpmemd, which runs in its own directory."""

import errno
import os
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from common import directory, execute  # noqa: E402

PROGRAM = os.environ["RPMEMD"]
LIMIT_S = 60
# Settings of the sanitizers, for each program that a test starts.
SANITIZERS = {name: os.environ[name] for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS") if name in os.environ}
MIB = 1 << 20
# Offset of the first field of a greeting without features, after the preamble and the size, and its bytes.
GREETING_ERROR_AT = 26 + 4
GREETING_EINVAL = chr(2 << 3) + chr(errno.EINVAL)


class DaemonTest(unittest.TestCase):
    """HOME and the directory of poolsets and of the log are the directory of the test."""

    def setUp(self):
        self.place = directory(self, prefix="rpmemd-")
        (self.place / ".rpmemd.conf").write_text(f"log-file = {self.place}/log\n")
        self.environment = {"HOME": str(self.place), "PATH": os.environ["PATH"], **SANITIZERS}

    def rpmemd(self, *words):
        return self.run_program(PROGRAM, *words, cwd="/", errors="replace")

    def run_program(self, *words, **options):
        return execute(words, env=self.environment, timeout=LIMIT_S, **options)

    def refused(self, done, status, pattern):
        """Expects one line on stderr that matches, and the exit status. A client of a session receives the line in the greeting, with EINVAL."""
        self.assertEqual(done.returncode, status, done.stderr)
        others = {"--remove", "--check", "--listen"}
        if others.isdisjoint(done.args):
            self.assertEqual(done.stdout[GREETING_ERROR_AT:GREETING_ERROR_AT + len(GREETING_EINVAL)], GREETING_EINVAL)
            self.assertRegex(done.stdout, pattern)
        else:
            self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertRegex(lines[0], "^rpmemd: .*" + pattern)

    def write_set(self, name, *parts, options="", mode=0o644):
        """Parts are pairs of size in MiB and file name."""
        lines = [f"{size}M {self.place}/{part}\n" for size, part in parts]
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("PMEMPOOLSET\n" + "".join(lines) + options)
        path.chmod(mode)

    def write_part(self, name, size_mib):
        path = self.place / name
        with path.open("wb") as part:
            part.truncate(size_mib * MIB)
        return path
