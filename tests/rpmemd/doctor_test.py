# SPDX-License-Identifier: BSD-3-Clause
"""rpmem-doctor: results of a good setup, and each fault with its remedy."""

import os
import resource
import shlex
import unittest

from support import PROGRAM, DaemonTest

DOCTOR = os.environ["RPMEM_DOCTOR"]
DAEMON = shlex.join([os.environ["RPMA_SOFTRDMA"], "run", "--", PROGRAM])


class Doctor(DaemonTest):
    def setUp(self):
        super().setUp()
        self.limits = {}
        self.environment["RPMEM_STATE_FILE"] = str(self.place / "none")
        self.environment["RPMEM_CMD"] = DAEMON
        self.write_set("a.set", (8, "p0"), (8, "p1"))

    def examine(self, target, name="a.set"):
        return self.run_program(DOCTOR, target, name, cwd="/", preexec_fn=self.set_limits)

    def set_limits(self):
        for limit, values in self.limits.items():
            resource.setrlimit(limit, values)

    def found(self, status, *lines, target="local:", name="a.set"):
        done = self.examine(target, name)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for line in lines:
            self.assertRegex(done.stdout, f"(?m)^{line}")
        return done.stdout

    def stand_in_for_ssh(self, body):
        script = self.place / "ssh"
        script.write_text("#!/bin/sh\n" + body)
        script.chmod(0o755)
        self.environment["RPMEM_SSH"] = str(script)

    def test_a_replica_that_is_ready(self):
        text = self.found(0, r"ok   login: this machine", r"ok   daemon: rpmemd \d", "ok   set: a.set in .*, 2 parts",
                          "ok   part: .*/p0 can be created", "ok   device: softrdma, .*, which flushes natively",
                          "ok   memlock: ", "ok   nofile: ", r"ok   level: \d",
                          "ok   size: 16773120 bytes", "ok   memlock here: ", "ok   nofile here: ", "ok   state: ",
                          r"ok   data port: 127\.0\.0\.1 port \d+ is reachable", r"ok   round trip: \d+ us", "ready$")
        self.assertNotIn("fail", text)
        self.assertFalse((self.place / "p0").exists())

    def test_a_lack_of_descriptors_is_no_missing_device(self):
        for limit in (4, 5, 8):
            self.limits = {resource.RLIMIT_NOFILE: (limit, limit)}
            done = self.run_program(PROGRAM, "--check", "a.set", preexec_fn=self.set_limits)
            self.assertNotRegex(done.stdout, "install softrdma|raise memlock")

    def test_what_a_set_is_worth(self):
        for name in ("p0", "p1"):
            self.write_part(name, 8)
        for variables, device, level in (
                ({}, "flushes natively", r"\d"),
                ({"PMEM_IS_PMEM_FORCE": "1"}, "flushes natively", "2, 4 where .*natively, too"),
                ({"PMEM_IS_PMEM_FORCE": "1", "SOFTRDMA_NATIVE_VERBS": "off"}, "does not flush natively", "2")):
            self.environment.update(variables)
            self.found(0, f"ok   device: softrdma, the software device, which {device}$", f"ok   level: {level}$")
        self.environment["RPMEM_MIN_LEVEL"] = "3"
        self.found(1, "fail level: 2, below RPMEM_MIN_LEVEL=3 .ENOTSUP.", "     fix: put the parts on other media")
        self.write_set("mixed.set", (8, "p0"), (8, "p2"))
        self.found(1, "ok   part: .*/p0 exists", "ok   part: .*/p2 can be created", name="mixed.set")
        self.assertTrue((self.place / "p0").exists() and not (self.place / "p2").exists())

    def test_several_targets(self):
        self.stand_in_for_ssh('for last; do :; done; SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" exec sh -c "$last"\n')
        state = self.place / "lost"
        self.environment["RPMEM_STATE_FILE"] = str(state)
        state.write_text("2026-01-31T12:00:00Z pid 1: replica a.set on 127.0.0.1: Connection timed out\n")
        self.found(0, "ok   local: state: no program", r"ok   127\.0\.0\.1 state: .* the next open resynchronizes it", r"ok   127\.0\.0\.1 data port",
                   "ready$", target="local:,127.0.0.1")
        self.found(1, "fail local: set: ", r"fail 127\.0\.0\.1 set: ", target="local:,127.0.0.1", name="none.set")
        self.found(2, target="local:,")

    def test_findings_that_cannot_be_written(self):
        with open("/dev/full", "wb") as full:
            done = self.run_program(*shlex.split(DAEMON), "--poolset-dir", self.place, "--check", "a.set", stdout=full)
        self.assertEqual((1, "rpmemd: standard output: No space left on device\n"), (done.returncode, done.stderr))

    def test_errors_of_the_set(self):
        self.found(1, "fail set: cannot open the set 'none.set'", "not ready", name="none.set")
        self.found(1, "fail set: .*absolute", name="/a.set")
        self.write_part("p0", 7)
        self.found(1, r"fail part: .*p0: \d+ bytes", "not ready: 1 to correct")

    def test_parts_are_tried_by_the_code_that_creates_them(self):
        self.write_set("big.set", (8, "b0"), (1 << 40, "b1"))
        self.found(1, "fail part: cannot allocate .*b1", "not ready: 1 to correct", name="big.set")
        self.write_set("twice.set", (8, "t0"), (8, "t0"))
        self.found(1, "fail part: .*t0: in use by .*twice in the set", "not ready: 1 to correct", name="twice.set")
        (self.place / "link").symlink_to("/nonexistent/part")
        self.write_set("link.set", (8, "link"))
        self.found(1, "fail part: .*link: is a symbolic link", "not ready: 1 to correct", name="link.set")
        self.environment["RPMEM_CMD"] += " --follow-symlinks"
        self.found(1, "fail part: .*link: symbolic link to a file that does not exist", name="link.set")
        self.environment["RPMEM_CMD"] = f"ulimit -f 1000; {DAEMON}"
        self.found(1, "fail part: cannot allocate 8388608 bytes .*p0: File too large", "not ready: 1 to correct")
        self.assertEqual([path.name for path in self.place.glob("[bt]?")], [])

    def test_the_command_is_one_of_a_shell(self):
        daemon = self.environment["RPMEM_CMD"]
        for command in (f"exec {daemon}", f"X=1 {daemon}", f"{daemon} 2>>{self.place}/errors", f"cd / && {daemon}",
                        f"{daemon} --poolset-dir '{self.place}'", f"{daemon}|no-such-program"):
            self.environment["RPMEM_CMD"] = command
            self.found(0, "ok   daemon: rpmemd", "ready$")
        self.environment["RPMEM_CMD"] = "no-such-rpmemd"
        self.found(1, "fail daemon: .*no-such-rpmemd: not found: exit status 127", "     fix: install the package rpmemd")
        self.environment["RPMEM_CMD"] = "kill -9 $$"
        self.found(1, r"fail daemon: killed by signal 9 \(Killed\)")
        self.environment["RPMEM_CMD"] = f"{daemon} --no-such-option"
        self.found(1, "fail daemon: .*no-such-option", "     fix: correct the configuration")

    def test_what_a_shell_prints_is_taken_for_the_answer(self):
        self.environment["RPMEM_CMD"] = "echo Welcome; " + self.environment["RPMEM_CMD"]
        self.found(1, "fail shell: the shell of the target prints 'Welcome'", "     fix: make startup files at the target", "not ready: 1 to correct")

    def test_variables_with_which_each_call_fails(self):
        for name, value in (("RPMEM_OP_TIMEOUT_MS", "soon"), ("RPMEM_MIN_LEVEL", "5"), ("RPMEM_ON_LOSS", "ignore"),
                            ("RPMEM_TRANSPORT", "rsh")):
            self.environment[name] = value
            self.found(1, f"fail environment: {name}={value}: every call fails", "not ready: 1 to correct")
            del self.environment[name]
        self.environment["RPMEM_ENABLE_SOCKETS"] = "0"
        self.found(1, "fail device: softrdma, .*which RPMEM_ENABLE_SOCKETS=0 forbids", "not ready: 1 to correct")
        self.environment["RPMEM_ENABLE_VERBS"] = "0"
        self.found(1, "fail environment: .* are both 0")

    def test_open_files_of_this_machine(self):
        self.limits = {resource.RLIMIT_NOFILE: (300, 300)}
        # The descriptors of the target suffice for the smaller number of lanes.
        self.found(0, "ok   nofile: 300 open files$",
                   "ok   nofile here: 300 open files, enough for 39 of 64 lanes; for all: raise nofile .* here to 448", "ready$")
        self.environment["RPMEM_MAX_NLANES"] = "39"
        self.found(0, "ok   nofile here: 300 open files$")
        self.environment["RPMEM_MAX_NLANES"] = "many"
        self.limits = {resource.RLIMIT_NOFILE: (300, 448)}
        self.found(0, "ok   nofile here: .* for all: ulimit -n 448, in the shell")
        self.limits = {}
        self.environment["RPMEM_CMD"] = f"ulimit -n 300; {DAEMON}"
        self.found(1, "fail nofile: 300 open files", "     fix: raise nofile .* of the target to 448", "not ready: 1 to correct")

    def test_locked_memory_of_this_machine(self):
        # An RDMA device pins the pool. A script replaces the daemon and reports such a device.
        self.stand_in_for_ssh("printf 'daemon\\tok\\trpmemd 1.0\\t\\nsize\\tok\\t4194304 bytes\\t\\n"
                              "device\\tok\\tRDMA hardware\\t\\n'\n")
        wanted = 4096 + 64 * 32
        for hard, remedy in ((2 << 20, f"raise memlock .* here to {wanted}, or LimitMEMLOCK="), (wanted << 10, f"ulimit -l {wanted},")):
            self.limits = {resource.RLIMIT_MEMLOCK: (2 << 20, hard)}
            self.found(1, "fail memlock here: 2048 KiB", f"     fix: {remedy}", "not ready: 1 to correct", target="127.0.0.1")
        self.limits = {resource.RLIMIT_MEMLOCK: (wanted << 10, wanted << 10)}
        self.found(0, f"ok   memlock here: {wanted} KiB", target="127.0.0.1")

    def test_a_replica_that_a_program_continued_without(self):
        state = self.place / "lost"
        self.environment["RPMEM_STATE_FILE"] = str(state)
        lost = "2026-01-31T12:00:00Z pid 4711: replica a.set on this machine: Connection timed out\n"
        state.write_text(lost + lost.replace("this machine", "elsewhere"))
        self.found(1, r"fail state: .* since 2026-01-31T12:00:00Z: a program continued without it: Connection timed out",
                   "     fix: .*--remove a.set && pmempool sync POOLSET", "not ready: 1 to correct")
        state.write_text(lost + lost.replace("Connection timed out", "rebuilt"))
        self.found(0, "ok   state: ")

    def test_over_ssh_each_word_is_quoted(self):
        self.stand_in_for_ssh('echo "$@" >"$(dirname "$0")/said"; for last; do :; done; '
                              'SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" exec sh -c "$last"\n')
        self.found(0, "ok   login: ssh works", "ready$", target="me@127.0.0.1:22")
        self.assertIn("-p 22 -T -oBatchMode=yes me@127.0.0.1", (self.place / "said").read_text())
        self.found(1, "fail set: ", target="127.0.0.1", name="a;touch hacked")
        self.assertFalse((self.place / "hacked").exists())

    def test_login_and_daemon_have_remedies(self):
        self.stand_in_for_ssh("echo 'me@host: Permission denied (publickey).' >&2; exit 255\n")
        self.found(1, "fail login: .*Permission denied", "     fix: make ssh work without a password: ssh-copy-id",
                   target="127.0.0.1")
        self.stand_in_for_ssh("echo 'sh: 1: rpmemd: not found' >&2; exit 127\n")
        self.found(1, "fail daemon: .*not found", "     fix: install the package rpmemd", target="127.0.0.1")
        self.stand_in_for_ssh("echo 'ssh: Could not resolve hostname' >&2; exit 255\n")
        self.found(1, "fail login: ssh: Could not resolve hostname", "     fix: .* the address", target="no-such-host.invalid")
        self.environment["RPMEM_SSH"] = "no-such-ssh"
        self.found(1, "fail login: no-such-ssh: No such file", "     fix: install no-such-ssh", target="127.0.0.1")
        # As librpmem reads it, this is not set.
        self.stand_in_for_ssh("echo failed >&2; exit 255\n")
        self.environment.update(RPMEM_SSH="", PATH=f"{self.place}:{self.environment['PATH']}")
        self.found(1, "fail login: failed: exit status 255", target="127.0.0.1")

    def test_wrong_usage(self):
        for target in ("", "@host", "a@b@host", "host:70000", "host:x", "-oProxyCommand=x"):
            refusal = self.examine(target)
            self.assertEqual(refusal.returncode, 2, target)
            self.assertRegex(refusal.stderr, r"\Arpmem-doctor: .+ \(see rpmem-doctor --help\)\n\Z")


if __name__ == "__main__":
    unittest.main()
