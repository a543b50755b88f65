# SPDX-License-Identifier: BSD-3-Clause
"""If a replica cannot be created, standard error of the program contains the cause and the remedy."""

import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

CALL, RPMEMD = os.environ["RPMEM_CALL"], shlex.quote(os.environ["RPMEMD"])
LIMIT_S = 60


class Report(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="rpmem-report-", dir="/dev/shm"))
        self.addCleanup(shutil.rmtree, self.place)
        self.daemon = f"{RPMEMD} --max-sessions 1000 --poolset-dir {self.place} --log-file {self.place}/log"
        self.write_set("a.set", 16)

    def write_set(self, name, *sizes):
        lines = [f"{size}M {self.place}/{name}.part{i}\n" for i, size in enumerate(sizes)]
        (self.place / name).write_text("PMEMPOOLSET\n" + "".join(lines))
        (self.place / name).chmod(0o600)

    def environment(self, command, **variables):
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("RPMEM_")}
        return inherited | {"RPMEM_TRANSPORT": "exec", "RPMEM_CMD": command, "RPMEM_STATE_FILE": f"{self.place}/lost"} | variables

    def create(self, command=None, name="a.set", call="hold", **variables):
        environment = self.environment(command or f"exec {self.daemon}", **variables)
        return subprocess.run([CALL, call, "host", name], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=LIMIT_S, check=False)

    def reported(self, pattern, *arguments, **variables):
        """Returns the line of the library. The program itself prints rpmem_errormsg()."""
        done = self.create(*arguments, **variables)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("librpmem[")]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertRegex(lines[0], r"error: replica .* on host: rpmem_create failed: .*" + pattern + r".* \(run rpmem-doctor 'host' '.*' to find")

    def test_the_first_failure_is_reported_unless_another_level_was_chosen(self):
        self.reported("cannot open the set 'none.set'", name="none.set")
        silent = self.create(name="none.set", RPMEM_LOG_LEVEL="0")
        self.assertNotIn("librpmem[", silent.stderr)
        result = self.create(name="none.set", RPMEM_LOG_LEVEL="1")
        self.assertIn("librpmem[", result.stderr)
        self.assertNotIn("rpmem-doctor", result.stderr)
        self.assertIn("open", self.create().stdout)

    def test_each_process_has_a_log_of_its_own(self):
        for _ in range(2):
            self.create(name="none.set", RPMEM_LOG_LEVEL="1", RPMEM_LOG_FILE=f"{self.place}/log-of-")
        logs = list(self.place.glob("log-of-*"))
        self.assertEqual(len(logs), 2)
        for log in logs:
            self.assertTrue(log.read_text().startswith(f"librpmem[{log.name.removeprefix('log-of-')}]: "), log)

    def test_how_the_daemon_ended_is_reported(self):
        self.reported(r"rpmemd was killed by signal 11 \(Segmentation fault\)", "kill -SEGV $$")
        self.reported("rpmemd ended with exit status 3", "exit 3")
        self.reported("rpmemd ended with exit status 127: .*no-such-rpmemd", "no-such-rpmemd")
        self.reported("cannot start no-such-ssh: No such file", RPMEM_TRANSPORT="ssh", RPMEM_SSH="no-such-ssh")
        self.reported("false ended with exit status 1", RPMEM_TRANSPORT="ssh", RPMEM_SSH="false")

    def test_a_target_removes_its_pool_while_others_are_silent(self):
        self.assertIn("open", self.create().stdout)
        part, stopped = self.place / "a.set.part0", self.place / "stopped"
        stop = f"echo $$ >>{stopped}; kill -STOP $$"
        environment = self.environment(f"{stop}|{stop}|exec {self.daemon}", RPMEM_OP_TIMEOUT_MS="0")
        with subprocess.Popen([CALL, "remove", "x,y,z", "a.set"], env=environment, stderr=subprocess.PIPE, text=True) as program:
            end = time.monotonic() + LIMIT_S
            while time.monotonic() < end and (part.exists() or not stopped.exists() or len(stopped.read_text().split()) < 2):
                time.sleep(0.01)
            removed = not part.exists()
            for pid in stopped.read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            if not removed:
                program.kill()
            errors = program.communicate(timeout=LIMIT_S)[1]
        self.assertTrue(removed)
        self.assertRegex(errors, "replica a.set on x: cannot run ")

    def test_a_bad_configuration_is_reported_by_the_daemon(self):
        (self.place / "conf").write_text("\nno-such-key = 1\n")
        done = self.create(f"exec {self.daemon} --config {self.place}/conf")
        self.assertIn("rpmemd did not start: " + str(self.place / "conf:2"), done.stderr)
        self.reported("rpmemd did not start: .*no-such-option", f"exec {self.daemon} --no-such-option")
        self.reported("rpmemd did not start: .*/nonexistent/log", f"exec {RPMEMD} --log-file /nonexistent/log")

    def test_a_part_that_cannot_be_created_leaves_nothing_behind(self):
        self.write_set("two.set", 2, 16)
        self.reported("cannot allocate 16777216 bytes .*File too large", f"ulimit -f 8000; exec {self.daemon}", name="two.set")
        self.assertEqual(list(self.place.glob("*.part*")), [])
        # A daemon that was killed during the creation may have left a file without data.
        (self.place / "two.set.part1").touch()
        self.assertIn("open", self.create(name="two.set").stdout)
        self.assertEqual((self.place / "two.set.part1").stat().st_size, 16 << 20)

    def test_memory_that_cannot_be_read_is_no_loss(self):
        devices = [{"SOFTRDMA_FAULT": "status=loc_prot:op=write,nth=2"}]
        # The runtime of a sanitizer intercepts the signal before the device.
        if "SANITIZED" not in os.environ:
            devices += [{"SOFTRDMA_TRANSPORT": "auto"}, {"SOFTRDMA_TRANSPORT": "tcp"}]
        for device in devices:
            for on_loss in ("error", "degrade"):
                done = self.create(call="unreadable", RPMEM_ON_LOSS=on_loss, **device)
                self.assertRegex(done.stdout, "^0 EFAULT EFAULT EFAULT .*cannot read the memory of the program", done.stderr)
                self.assertFalse((self.place / "lost").exists())
                (self.place / "a.set.part0").unlink()


if __name__ == "__main__":
    unittest.main()
