# SPDX-License-Identifier: BSD-3-Clause
"""Remote replicas over a real ssh: both kinds of addresses, quoted words, a forced command, and the first steps."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import sshd

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from common import directory, execute, skip, wait_until  # noqa: E402

LIMIT_S = 120
RPMEMD = pathlib.Path(os.environ["RPMEMD"])
EXAMPLES = pathlib.Path(os.environ["REPLICA_EXAMPLES"])
STEPS = os.environ["REPLICA_STEPS"]
BUILD = os.environ["BUILD_DIRECTORY"]
CALL = os.environ["RPMEM_CALL"]
# Addresses of the target, and the command prefix that runs commands there.
ADDRESSES = os.environ.get("TARGET_ADDRESSES", "127.0.0.1 ::1").split()
AT_TARGET = os.environ.get("AT_TARGET", "").split()
NAME = "it's my $HOME; touch hacked"


class Ssh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = directory(cls, prefix="rpmem-ssh-", dir="/dev/shm")
        cls.home = cls.place / "home"
        cls.home.mkdir()
        cls.sshd = sshd.Sshd(cls.place, ADDRESSES, cls.home, f"{RPMEMD.parent}:{os.environ['PATH']}", AT_TARGET)
        cls.addClassCleanup(cls.sshd.stop)
        cls.sshd.wait()

    def setUp(self):
        (self.home / ".rpmemd.conf").write_text(f"log-file = {self.place}/daemon.log\nlog-level = notice\n")
        for path in self.home.glob("part*"):
            path.unlink()

    def tearDown(self):
        # Sessions end when their client disconnects.
        self.assertFalse((self.home / "hacked").exists())

    def write_set(self, name):
        path = self.home / f"{name}.set"
        path.write_text(f"PMEMPOOLSET\n40M {self.home}/part\n")
        path.chmod(0o600)
        return path.name

    def variables(self, key="client", **more):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RPMEM_")}
        return inherited | {"RPMEM_SSH": self.sshd.client(key), "HOME": str(self.place), **more}

    def run_program(self, *words, key="client", **variables):
        return execute(words, env=self.variables(key, **variables), cwd="/", timeout=LIMIT_S)

    def succeeds(self, *words, **options):
        done = self.run_program(*words, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.sshd.log())
        return done.stdout

    def fails(self, *words, **options):
        done = self.run_program(*words, **options)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return done.stderr

    def test_a_pool_is_created_over_each_kind_of_address(self):
        for address in ADDRESSES:
            with self.subTest(address):
                target, name = self.sshd.target(address), self.write_set("plain")
                self.assertIn("equal", self.succeeds(EXAMPLES / "basic", target, name))
                self.succeeds(EXAMPLES / "open-persist-close", target, name)
                self.assertEqual((self.home / "part").read_bytes()[:8], b"MANPAGE\0")
                self.succeeds(CALL, "remove", target, name)
                self.assertFalse((self.home / "part").exists())

    def test_each_word_is_quoted_for_the_shell_of_the_target(self):
        target, name = self.sshd.target(ADDRESSES[0]), self.write_set(NAME)
        self.succeeds(EXAMPLES / "basic", target, name)
        (self.home / "part").write_bytes(b"")
        (self.home / "part").write_bytes(bytes(40 << 20))
        self.succeeds(CALL, "remove-all", target, name)
        self.assertEqual([path.name for path in self.home.glob("*.set") if "hacked" in path.name], [])

    def test_a_forced_command_serves_and_removes_and_does_nothing_else(self):
        target = self.sshd.target(ADDRESSES[-1])
        self.sshd.allow(f"rpmemd --forced --poolset-dir {self.home}")
        for name in (self.write_set("forced"), self.write_set(NAME)):
            self.assertIn("equal", self.succeeds(EXAMPLES / "basic", target, name, key="forced"))
        self.succeeds(EXAMPLES / "hello", target, name, key="forced")
        self.succeeds(CALL, "remove-all", target, name, key="forced")
        self.assertFalse((self.home / name).exists() or (self.home / "part").exists())
        # Other requests of a client are rejected, and their commands do not run.
        errors = self.fails(CALL, "remove", target, "a.set", key="forced",
                            RPMEM_CMD=f"touch {self.home}/hacked; rpmemd")
        self.assertIn("rejected", errors)
        errors = self.fails(CALL, "remove", target, "a.set", key="forced", RPMEM_CMD="rpmemd --poolset-dir /")
        self.assertIn("rejected", errors)

    def test_a_missing_set_and_a_missing_daemon_are_reported(self):
        target = self.sshd.target(ADDRESSES[0])
        self.assertIn("none.set", self.fails(EXAMPLES / "basic", target, "none.set"))
        self.assertIn("not found", self.fails(EXAMPLES / "basic", target, "none.set", RPMEM_CMD="no-such-rpmemd"))
        wrong = target.replace(f":{self.sshd.port}", ":1")
        self.assertIn("refused", self.fails(EXAMPLES / "basic", wrong, "none.set").lower())

    def test_a_stopped_daemon_does_not_hold_up_the_end(self):
        # Once immediately, and once after the library has detected the silence.
        for pause_s, error in ((0, "ETIMEDOUT"), (4, "ECONNRESET")):
            pid_file = self.place / f"pid-{pause_s}"
            command = [CALL, "hold", self.sshd.target(ADDRESSES[0]), self.write_set(f"held-{pause_s}")]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
                                  env=self.variables(RPMEM_OP_TIMEOUT_MS="2000",
                                                     RPMEM_CMD=f"echo $$ >{pid_file}; exec rpmemd")) as program:
                self.assertEqual(program.stdout.readline(), "open\n")
                daemon = int(pid_file.read_text())
                os.kill(daemon, signal.SIGSTOP)
                time.sleep(pause_s)
                try:
                    said = program.communicate("\n", timeout=LIMIT_S)[0]
                finally:
                    program.kill()
                    os.kill(daemon, signal.SIGCONT)
                self.assertEqual(said, f"closed: -1, {error}\n")
            # The daemon exits on its own as soon as it can.
            wait_until(lambda pid=daemon: not pathlib.Path(f"/proc/{pid}").exists(), "the end of the daemon", LIMIT_S)
            (self.home / "part").unlink(missing_ok=True)

    def test_the_first_steps_succeed(self):
        for address in ADDRESSES:
            with self.subTest(address):
                text = self.succeeds(STEPS, self.sshd.target(address), BUILD)
                self.assertIn("persisted 33550336 bytes, 4 lanes", text)
                self.assertIn("ok: the replica is on", text)
                self.assertEqual(list(self.home.glob("*.poolset")), [])


if __name__ == "__main__":
    if sshd.lacking():
        skip(sshd.lacking())
    unittest.main()
