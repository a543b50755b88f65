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

    def test_a_target_of_mirrors_needs_an_address_and_a_key(self):
        key = self.place / "key"
        key.write_text("0123456789abcdef" * 4)
        key.chmod(0o600)
        self.refused(self.rpmemd("--listen", "127.0.0.1:0"), 255, "need each other")
        self.refused(self.rpmemd("--key-file", key), 255, "need each other")
        self.refused(self.rpmemd("--listen", "127.0.0.1:0", "--key-file", key, "--check", "a"), 255, "does not go with")
        self.refused(self.rpmemd("--listen", "127.0.0.1", "--key-file", key), 255, "write ADDRESS:PORT")
        self.refused(self.rpmemd("--listen", "localhost:0", "--key-file", key), 255, "localhost:0")
        for everywhere in ("0.0.0.0:0", "[::]:0"):
            self.refused(self.rpmemd("--listen", everywhere, "--key-file", key), 255, "name one address")
        self.refused(self.rpmemd("--listen", "192.0.2.1:0", "--key-file", key), 1, "cannot listen on 192.0.2.1:0")
        self.refused(self.rpmemd("--listen", "127.0.0.1:0", "--key-file", "/nonexistent"), 1, "cannot read /nonexistent")
        key.chmod(0o640)
        self.refused(self.rpmemd("--listen", "127.0.0.1:0", "--key-file", key), 1, "chmod 600")
        key.chmod(0o600)
        for text in ("0" * 63, "0" * 65, "g" * 64, ""):
            key.write_text(text)
            self.refused(self.rpmemd("--listen", "127.0.0.1:0", "--key-file", key), 1, "64 hexadecimal digits")


if __name__ == "__main__":
    unittest.main()
