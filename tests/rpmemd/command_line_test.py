# SPDX-License-Identifier: BSD-3-Clause
"""Exit codes, the two texts on standard error, and the log of rpmemd."""

import unittest

from support import DaemonTest


class CommandLine(DaemonTest):
    def test_help_and_version_go_to_standard_error(self):
        for words in (["-h"], ["--help"], ["-V"], ["--version"], ["--help", "--config", "/nonexistent"]):
            done = self.rpmemd(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertIn("rpmemd", done.stderr)

    def test_a_bad_command_line_gives_255(self):
        self.refused(self.rpmemd("--bogus"), 255, "--bogus")
        self.refused(self.rpmemd("--log-level", "all"), 255, "write err, warn, notice, info or debug")
        self.refused(self.rpmemd("--nthreads", "many"), 255, "--nthreads")
        self.refused(self.rpmemd("--remove"), 255, "remove")

    def test_a_bad_configuration_gives_1(self):
        (self.place / ".rpmemd.conf").write_text("\n\nnthreads = 1\n")
        self.refused(self.rpmemd("--remove", "a"), 1, r"/\.rpmemd\.conf:3: unknown key 'nthreads'")
        self.refused(self.rpmemd("--config", "/nonexistent/c"), 1, "/nonexistent/c: cannot be opened")
        (self.place / ".rpmemd.conf").unlink()
        self.refused(self.rpmemd("--poolset-dir", "here"), 1, "absolute")
        self.refused(self.rpmemd("--poolset-dir", "/nonexistent/dir"), 1, "/nonexistent/dir")
        self.refused(self.rpmemd("--log-file", "/nonexistent/log", "--remove", "a"), 1, "/nonexistent/log")

    def test_the_log_gets_what_its_level_lets_through(self):
        log = self.place / "log"
        self.rpmemd("--remove", "missing.set", "--force")
        self.assertEqual(log.read_text(), "")
        self.rpmemd("--remove", "missing.set", "--force", "--log-level", "warn")
        self.assertRegex(log.read_text(), r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d rpmemd\[\d+\] warn: cannot open the set")
        self.rpmemd("--remove", "missing.set")
        self.assertRegex(log.read_text(), "\n.* err: cannot open the set 'missing.set'")
        self.assertEqual(log.stat().st_mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main()
