# SPDX-License-Identifier: BSD-3-Clause
"""Exit codes of rpmemd, its messages on standard error, and its log."""

import errno
import os
import shutil
import socket
import subprocess
import unittest

from support import LIMIT_S, PROGRAM, DaemonTest, execute

# A private /dev with its own log socket.
OWN_DEV = """set -e
mount -t tmpfs none "$1"
touch "$1/null"
mount --bind /dev/null "$1/null"
ln -s "$2" "$1/log"
mount --bind "$1" /dev
shift 2
exec "$@"
"""
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def may_have_a_namespace():
    return bool(shutil.which("unshare")) and execute([*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"]).returncode == 0


class CommandLine(DaemonTest):
    def test_help_and_version_go_to_standard_error(self):
        for words in (["-h"], ["--help"], ["-V"], ["--version"], ["--help", "--config", "/nonexistent"]):
            done = self.rpmemd(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertIn("rpmemd", done.stderr)

    def test_a_bad_command_line_gives_255(self):
        self.refused(self.rpmemd("--bogus"), 255, "--bogus")
        self.refused(self.rpmemd("--log-level", "all"), 255, "must be err, warn, notice, info or debug")
        self.refused(self.rpmemd("--nthreads", "many"), 255, "--nthreads")
        self.refused(self.rpmemd("--remove"), 255, "remove")

    def test_a_terminal_gets_an_explanation(self):
        """Either descriptor may be the terminal: the other one can be a pipe of the shell."""
        for stream in ("stdin", "stdout"):
            leader, follower = os.openpty()
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL} | {stream: follower}
            try:
                done = subprocess.run([PROGRAM], stderr=subprocess.PIPE, text=True, check=False, timeout=LIMIT_S, **streams)
                os.set_blocking(leader, False)
                self.assertRaises(BlockingIOError, os.read, leader, 1)
            finally:
                os.close(follower)
                os.close(leader)
            self.assertEqual(255, done.returncode)
            self.assertRegex(done.stderr, r"\Arpmemd: standard input or output is a terminal: .*rpmem-doctor.*\n\Z")

    def test_a_bad_configuration_gives_1(self):
        (self.place / ".rpmemd.conf").write_text("\n\nnthreads = 1\n")
        self.refused(self.rpmemd("--remove", "a"), 1, r"/\.rpmemd\.conf:3: unknown key 'nthreads'")
        self.refused(self.rpmemd("--config", "/nonexistent/c"), 1, "/nonexistent/c: cannot be read")
        (self.place / ".rpmemd.conf").unlink()
        self.refused(self.rpmemd("--poolset-dir", "here"), 1, "absolute")
        self.refused(self.rpmemd("--poolset-dir", "/nonexistent/dir"), 1, "/nonexistent/dir")
        self.refused(self.rpmemd("--log-file", "/nonexistent/log", "--remove", "a"), 1, "/nonexistent/log")
        self.refused(self.rpmemd("--log-file", "/nonexistent/log"), 1, "/nonexistent/log")

    def test_the_log_gets_what_its_level_lets_through(self):
        log = self.place / "log"
        self.rpmemd("--remove", "missing.set", "--force")
        self.assertEqual(log.read_text(), "")
        self.rpmemd("--remove", "missing.set", "--force", "--log-level", "warn")
        self.assertRegex(log.read_text(), r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d rpmemd\[\d+\] warn: cannot open the set")
        self.rpmemd("--remove", "missing.set")
        self.assertRegex(log.read_text(), "\n.* err: cannot open the set 'missing.set'")
        self.assertEqual(log.stat().st_mode & 0o777, 0o600)

    @unittest.skipUnless(may_have_a_namespace(), "no namespace of mounts can be made here")
    def test_without_a_file_the_log_is_syslog(self):
        (self.place / ".rpmemd.conf").write_text("log-level = warn\n")
        (self.place / "dev").mkdir()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
            syslog.bind(str(self.place / "syslog"))
            syslog.settimeout(LIMIT_S)
            for options, status, priority in (([], 2, "err"), (["--force"], 0, "warn")):
                done = self.run_program(*NAMESPACE, "sh", "-c", OWN_DEV, "sh", self.place / "dev", self.place / "syslog", PROGRAM,
                                        "--remove", "none.set", *options)
                self.assertEqual(done.returncode, status, done.stderr)
                # The facility is user, which is 1.
                number = 8 + {"err": 3, "warn": 4}[priority]
                self.assertRegex(syslog.recv(4096).decode(), rf"^<{number}>.* rpmemd\[\d+\]: cannot open the set 'none.set'")

    def test_a_session_loads_no_library_of_the_server(self):
        loaded = execute(["ldd", PROGRAM]).stdout
        self.assertIn("librpma.so.0", loaded)
        self.assertNotRegex(loaded, "libgnutls|libmicrohttpd|libsystemd")

    def test_a_message_names_the_missing_server(self):
        directory = self.place / "a blank" / "bin"
        directory.mkdir(parents=True)
        program = shutil.copy(PROGRAM, directory)
        self.refused(self.run_program(program, "--listen", "127.0.0.1:0", "--key-file", "key"), 1,
                     r"cannot execute '/.*/a blank/.*/rpmemd-listen': No such file or directory \(reinstall rpmemd\)$")

    def test_a_value_may_have_the_name_of_the_option(self):
        self.refused(self.rpmemd("--remove", "--listen"), 255, "write --OPTION=--listen")
        self.assertEqual(self.rpmemd("--remove=--listen").returncode, errno.ENOENT)

    def test_a_target_of_mirrors_needs_an_address_and_a_key(self):
        key = self.place / "key"
        key.write_text("writer:" + "0123456789abcdef" * 4)
        key.chmod(0o600)
        self.refused(self.rpmemd("--listen", "127.0.0.1:0"), 255, "require each other")
        self.refused(self.rpmemd("--key-file", key), 255, "require each other")
        self.refused(self.rpmemd("--listen", "127.0.0.1:0", "--key-file", key, "--check", "a"), 255, "cannot be combined with")
        self.refused(self.rpmemd("--listen", "127.0.0.1", "--key-file", key), 255, "not of the form ADDRESS:PORT")
        for port in ("65536", "72040", "-1", " 7470", "http", "4294967297"):
            self.refused(self.rpmemd("--listen", f"127.0.0.1:{port}", "--key-file", key), 255, "1 to 65535")
        self.refused(self.rpmemd("--listen", "localhost:0", "--key-file", key), 255, "localhost:0")
        for everywhere in ("0.0.0.0:0", "[::]:0"):
            self.refused(self.rpmemd("--listen", everywhere, "--key-file", key), 255, "wildcard address not allowed")
        self.refused(self.rpmemd("--listen", "192.0.2.1:0", "--key-file", key), 1, "cannot listen on 192.0.2.1:0")
        self.refused(self.rpmemd("--listen", "127.0.0.1:0", "--key-file", "/nonexistent"), 1, "key file /nonexistent: No such file")
        key.chmod(0o640)
        self.refused(self.rpmemd("--listen", "127.0.0.1:0", "--key-file", key), 1, "chmod 600")
        key.chmod(0o600)
        good = "a:" + "0" * 64 + "\n"
        for text, message in (("0" * 64, "line 1: not of the form NAME:KEY"), (":" + "0" * 64, "line 1: not of the form"),
                              (good + "b:" + "0" * 63, "line 2: not of the form"), ("a:" + "g" * 64, "line 1: not of the form"),
                              ("a:" + "0" * 30, "32 to 128 hexadecimal digits"), ("a b:" + "0" * 64, "line 1: not of the form"),
                              ("#61:" + "0" * 64, "line 1: not of the form"), ("a:", "line 1: not of the form"),
                              (good + good, "line 2: second key of 'a'"), ("\n", "does not contain a key"),
                              ("", "does not contain a key")):
            key.write_text(text)
            self.refused(self.rpmemd("--listen", "127.0.0.1:0", "--key-file", key), 1, message)


if __name__ == "__main__":
    unittest.main()
