#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rpma-mirror while a program has the set open: each command over the local socket of that program, and programs and tools
that stop, are killed, or misbehave."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import unittest

from support import TOOL, MirrorTest, stop, wait_until

BUSY_CLIENTS = 8
# Another user, who may enter the directory of the build.
OTHER_USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
              "--ambient-caps=+dac_read_search")


class Busy:
    """Flushes with a writer in a thread of its own until the end of the block. Each flush must succeed."""

    def __init__(self, test, writer):
        self.test, self.writer = test, writer
        self.codes, self.ended = {}, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ended.is_set():
            code = self.test.flush(self.writer, "text")
            self.codes[code] = self.codes.get(code, 0) + 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ended.set()
        self.thread.join()
        if kind is None:
            self.test.assertEqual(list(self.codes), [0])


class Admin(MirrorTest):
    def opened(self, *targets, more="background-resync off"):
        """A set with these targets, and a writer that has it open."""
        host = self.created(*targets, more=more)
        return host, self.writer(host)

    def without(self, target, writer):
        """Restarts the target after the writer evicted it."""
        target.kill()
        self.assertEqual(self.flush(writer, "alone"), 0)
        target.start()

    def slow(self, *words):
        """Starts the tool, and returns when it shows the first progress."""
        slow = subprocess.Popen([TOOL, *map(str, words), "--progress", "on", "--rate", "1M"], stderr=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (slow.kill(), slow.communicate()))
        self.assertRegex(slow.stderr.readline(), r"^copy \d+: +\d+% of 8\.0 MiB")
        return slow

    def client(self, host, line=b""):
        """A connection to the socket that has sent the line."""
        made = socket.socket(socket.AF_UNIX)
        self.addCleanup(made.close)
        made.settimeout(60)
        made.connect(str(host.parent / "home.mirror.socket"))
        made.sendall(line)
        return made

    def test_each_command_while_the_program_writes(self):
        a, b, c = self.target(), self.target(), self.target()
        host, writer = self.opened(a, b)
        with Busy(self, writer):
            state = self.json("status", host)
            self.assertEqual((state["in_use"], state["epoch"], state["in_sync"]), (True, 2, [0, 1, 2]))
            self.assertRegex(self.done("status", host), r"(?m)^1 +in sync +2\.\d+ +" + a.address)
            report = self.json("verify", host)
            self.assertEqual((report["equal"], [copy["compared"] for copy in report["copies"]]), (True, [8 << 20] * 2))
            self.assertEqual(self.json("add", host, 3, c.address, "set")["in_sync"], [0, 1, 2, 3])
            self.assertTrue(host.read_text().endswith(f"\ntarget 3 {c.address} set\n"))
            self.refused(1, "duplicate copy number 3", "add", host, 3, c.address, "set")
            self.assertEqual(self.json("verify", host, 3)["equal"], True)
            self.assertEqual(self.json("remove", host, 3), {"members": [0, 1, 2], "in_sync": [0, 1, 2]})
            self.assertNotIn("target 3", host.read_text())
            self.refused(1, "copy 3 not found", "remove", host, 3)
        self.without(b, writer)
        with Busy(self, writer):
            self.assertEqual(self.json("status", host, status=1)["not_in_sync"], [2])
            self.refused(1, "policy safety", "remove", host, 1)
            self.assertEqual(self.json("resync", host)["in_sync"], [0, 1, 2])
            self.assertTrue(self.json("verify", host)["equal"])
        a.damage(7_000_000, b"rot")
        report = self.json("verify", host, status=1)
        self.assertEqual((report["equal"], [copy["different"] for copy in report["copies"]]), (False, [1, 0]))
        b.kill()
        self.assertEqual(self.flush(writer, "without b"), 0)
        report = self.json("resync", host, status=1)
        self.assertEqual((report["not_in_sync"], [copy["copy"] for copy in report["failed"]]), ([2], [2]))
        self.assertEqual([copy["state"] for copy in self.json("status", host, status=1)["copies"]],
                         ["in sync", "in sync", "offline"])
        self.refused(1, "in use", "promote", host)

    def test_metrics_contain_the_counters_of_the_program(self):
        host, writer = self.opened(self.target())
        self.assertEqual(self.flush(writer, "one"), 0)
        text = self.done("status", "--prometheus", host)
        self.parsed(text)
        found = dict(re.findall(rf'(?m)^rpma_mirror_(\w+){{set_file="{host}"(?:,set="\w+")?}} (\d+)$', text))
        self.assertGreaterEqual(int(found["flushes_total"]), 1)
        self.assertEqual((found["in_use"], found["usable"], found["length_bytes"]), ("1", "1", str(8 << 20)))
        self.assertRegex(text, rf'(?m)^rpma_mirror_flush_seconds_bucket{{set_file="{host}",set="\w+",le="\+Inf"}} [1-9]')
        for line in text.splitlines():
            self.assertRegex(line, rf'^# (HELP|TYPE) rpma_mirror_|^rpma_mirror_\w+{{set_file="{host}"[,}}]')

    def state_of_targets(self, host, pattern, status=0):
        """Checks that status queries the targets, with one line that matches, and returns the state."""
        for options in [], ["--prometheus"], ["--json"]:
            result = self.tool("status", *options, host)
            self.assertEqual(result.returncode, status, result.stdout + result.stderr)
            self.assertRegex(result.stderr, f"^rpma-mirror: program that has the set open: {pattern}; querying the targets\n$")
            self.assertIn(self.targets[0].address, result.stdout)
        return json.loads(result.stdout)

    def test_a_stopped_program(self):
        a, b = self.target(), self.target()
        host, writer = self.opened(a, b)
        stop(writer)
        silent = f"no response within {{}} s .process {writer.pid} may be stopped or overloaded."
        state = self.state_of_targets(host, silent.format(2))
        self.assertEqual((state["in_use"], state["epoch"], state["in_sync"]), (True, 2, [0, 1, 2]))
        self.refused(1, silent.format(10), "verify", host)
        b.kill()
        state = self.state_of_targets(host, silent.format(2), status=1)
        self.assertEqual([copy["state"] for copy in state["copies"]], ["in sync", "in sync", "offline"])
        writer.send_signal(signal.SIGCONT)
        self.assertEqual(self.flush(writer, "continued"), 0)
        self.assertEqual(self.json("status", host, status=1)["not_in_sync"], [2])

    def test_a_program_killed_in_a_resync_leaves_a_socket_that_is_replaced(self):
        a, b = self.target(), self.target()
        host, writer = self.opened(a, b)
        self.without(b, writer)
        slow = self.slow("resync", host)
        writer.kill()
        _, rest = slow.communicate()
        self.assertEqual(slow.returncode, 1)
        self.assertRegex(rest, "(?m)^rpma-mirror: program that has the set open: closed the connection")
        left = host.parent / "home.mirror.socket"
        self.assertTrue(left.is_socket())
        wait_until(lambda: not json.loads(self.tool("status", "--json", host).stdout)["in_use"])
        other = self.writer(host)
        self.assertEqual(self.json("status", host)["epoch"], 3)
        other.kill()
        other.wait()
        # The tool opens the closed set, and removes the socket when it closes the set.
        self.done("resync", host)
        self.assertFalse(left.exists())

    def test_a_program_that_closes_the_set_reports_the_result_of_a_command(self):
        host = self.created(self.target())
        c = self.target()
        self.done("resync", host)
        verify = self.slow("verify", host)
        add = self.slow("add", host, 3, c.address, "set")
        verify.send_signal(signal.SIGINT)
        verify.communicate()
        _, rest = add.communicate()
        self.assertEqual((add.returncode, "rpma-mirror: canceled\n" in rest), (1, True), rest)
        self.assertEqual(self.json("status", host)["members"], [0, 1])

    def test_the_socket_of_a_dead_program_in_its_child(self):
        host, writer = self.opened(self.target())
        writer.stdin.write("fork\n")
        child = int(writer.stdout.readline())
        self.addCleanup(os.kill, child, signal.SIGKILL)
        writer.kill()
        writer.wait()
        # The child also inherits the lock of the state file.
        self.assertTrue(self.json("status", host)["in_use"])
        self.refused(1, "in use by another process", "verify", host)

    def test_a_tool_killed_in_the_middle_stops_its_command(self):
        a, b, c = self.target(), self.target(), self.target()
        host, writer = self.opened(a, b)
        self.without(b, writer)
        with Busy(self, writer):
            for sent in signal.SIGKILL, signal.SIGINT:
                slow = self.slow("resync", host)
                slow.send_signal(sent)
                _, rest = slow.communicate()
                self.assertEqual("rpma-mirror: canceled\n" in rest, sent == signal.SIGINT, rest)
                self.assertEqual(self.json("status", host, status=1)["in_sync"], [0, 1])
            wait_until(lambda: self.tool("resync", host).returncode == 0)
            slow = self.slow("add", host, 3, c.address, "set")
            self.assertEqual([copy["state"] for copy in self.json("status", host, status=1)["copies"]],
                             ["in sync"] * 3 + ["resync"])
            slow.kill()
            wait_until(lambda: len(json.loads(self.tool("status", "--json", host).stdout)["copies"]) == 3)
            self.assertNotIn("target 3", host.read_text())
            slow = self.slow("verify", host, 1)
            slow.kill()
            wait_until(lambda: self.tool("verify", host, 1).returncode == 0)
            # Without the tool, the line of the removed copy remains. The repeated command removes it.
            self.assertIn('"code":0', self.client(host, b'{"command":"remove","copy":2}\n').makefile().read())
            self.assertEqual(self.json("remove", host, 2)["members"], [0, 1])
            self.assertNotIn("target 2", host.read_text())

    def test_a_tool_killed_before_it_writes_the_line_of_a_copy(self):
        a, b = self.target(), self.target()
        host, writer = self.opened(a)
        with Busy(self, writer):
            self.add_without_line(host, 2, b)
            self.assertNotIn("target 2", host.read_text())
            self.refused(1, "duplicate copy number 2", "add", host, 2, b.address, "other")
            self.assertEqual(self.json("add", host, 2, b.address, "set")["in_sync"], [0, 1, 2])
            self.assertTrue(host.read_text().endswith(f"\ntarget 2 {b.address} set\n"))

    def test_a_background_resync_continues_after_a_canceled_one(self):
        a, b = self.target(), self.target()
        host, writer = self.opened(a, b, more="background-resync on 1M")
        self.without(b, writer)
        self.slow("resync", host).kill()
        wait_until(lambda: self.tool("status", host).returncode == 0)

    def test_several_tools_at_once(self):
        a, b = self.target(), self.target()
        host, writer = self.opened(a, b)
        with Busy(self, writer):
            slow = self.slow("verify", host, 1)
            self.refused(1, "already running", "verify", host, 1)
            self.refused(1, "already running", "remove", host, 1)
            self.done("verify", host, 2)
            self.done("status", host)
            slow.send_signal(signal.SIGINT)
            slow.communicate()

    def test_clients_that_are_silent_or_invalid_delay_no_other(self):
        host, writer = self.opened(self.target())
        verify = b'{"command":"verify","copy":1,"rate":%s}\n'
        for line in (b"no json\n", b"[]\n", b"{}\n", b'{"command":"format"}\n', b"x" * 5000, b'{"command":"remove","copy":4294967297}\n',
                     *(b'{"command":"verify","copy":%s}\n' % copy for copy in (b'"one"', b"4294967297", b"-1", b"1.5", b"true", b"1e300")),
                     verify % b"-1", verify % b"1e300", verify % b"null", b'{"command":"grow","length":8388608.5}\n'):
            answer = json.loads(self.client(host, line).makefile().readline())
            self.assertEqual(answer["code"], -110000, (line, answer))
        silent = [self.client(host, b'{"command"') for _ in range(BUSY_CLIENTS)]
        self.assertTrue(self.state_of_targets(host, "too many administrators are connected .*")["in_use"])
        self.refused(1, "too many administrators", "verify", host)
        self.assertEqual(self.flush(writer, "text"), 0)
        self.assertEqual([client.recv(1) for client in silent], [b""] * BUSY_CLIENTS)
        self.done("status", host)

    def test_a_silent_target(self):
        a, b = self.target(), self.target()
        host, writer = self.opened(a, b, more="background-resync off\ntimeouts 2000 4000")
        stop(b.process)
        self.assertTrue(self.json("status", host)["in_use"])
        self.assertEqual(self.flush(writer, "without b"), 0)
        self.assertEqual(self.json("status", host, status=1)["not_in_sync"], [2])
        report = self.json("resync", host, status=1)
        self.assertEqual((report["in_sync"], report["failed"][0]["copy"]), ([0, 1], 2))
        self.assertEqual(self.json("remove", host, 2)["members"], [0, 1])

    def test_a_mirror_that_has_failed(self):
        a = self.target()
        host, writer = self.opened(a)
        self.done("promote", self.host(5, a))
        self.assertNotEqual(self.flush(writer, "too late"), 0)
        result = self.tool("status", "--json", host)
        self.assertEqual(result.returncode, 1)
        state = json.loads(result.stdout)
        self.assertEqual((state["in_use"], state["epoch"], state["copies"][0]["state"]), (True, 3, "stale"))
        self.assertRegex(result.stderr, "^rpma-mirror: mirror of the program failed: .*restart the program")

    def test_without_the_socket(self):
        host, _ = self.opened(self.target(), more="admin-socket off")
        self.assertEqual(list(host.parent.glob("*.socket")), [])
        self.assertTrue(self.json("status", host)["in_use"])
        for words in ("verify", host), ("resync", host), ("remove", host, 1):
            self.refused(1, "in use by another process", *words)
        self.refused(2, "set:6: invalid value 'maybe' .use off or on",
                     "status", self.host(5, more="admin-socket maybe"))

    def test_a_directory_with_a_long_path(self):
        self.place = self.place / ("long" * 30)
        self.place.mkdir()
        host, _ = self.opened(self.target())
        self.assertTrue((host.parent / "home.mirror.socket").is_socket())
        self.assertTrue(self.json("verify", host)["equal"])

    @unittest.skipIf(os.getuid() != 0, "only root can become another user")
    def test_another_user_is_rejected(self):
        host, _ = self.opened(self.target())
        for place in self.place, host.parent:
            place.chmod(0o755)
        mode = (host.parent / "home.mirror").stat().st_mode & 0o666
        self.assertEqual((host.parent / "home.mirror.socket").stat().st_mode & 0o777, mode)
        for command in "status", "verify":
            self.refused(1, "Permission denied .use the user", command, host, before=OTHER_USER)


if __name__ == "__main__":
    unittest.main()
