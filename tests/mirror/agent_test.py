#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The resource agent over real targets. The tests call it like Pacemaker on two nodes."""

import os
import shlex
import shutil
import signal
import tempfile
import unittest

from support import LIMIT_S, TOOL, MirrorTest, execute, stop

AGENT = os.environ["MIRROR_AGENT"]
FENCED = -110004
SUCCESS, GENERIC, ARGS, UNIMPLEMENTED, _, INSTALLED, CONFIGURED, NOT_RUNNING, PROMOTED, FAILED_PROMOTED = range(10)
NEVER = "-INFINITY"


class Node:
    """Pacemaker on one node: calls the agent, and stores the score that the agent sets."""

    def __init__(self, test, set_file):
        self.test = test
        self.place = set_file.parent
        self.score = None
        programs = self.place / "bin"
        programs.mkdir()
        # Replaces Pacemaker's command, which needs a cluster.
        (programs / "crm_attribute").write_text(f'#!/bin/sh\necho "$@" >>{self.place}/scores\n')
        (programs / "crm_attribute").chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "OCF_ROOT": "/usr/lib/ocf",
                            "OCF_RA_VERSION_MAJOR": "1", "OCF_RA_VERSION_MINOR": "1", "OCF_RESOURCE_INSTANCE": "log:0",
                            "HA_RSCTMP": f"{self.place}/run", "OCF_RESKEY_set": str(set_file), "OCF_RESKEY_tool": TOOL}

    def act(self, action, status=SUCCESS, pattern="", **changes):
        result = execute([AGENT, action], env={**self.environment, **changes}, timeout=LIMIT_S)
        self.test.assertEqual(result.returncode, status, f"{action}: {result.stdout}{result.stderr}")
        if pattern:
            self.test.assertRegex(result.stderr, "(?m)^ocf-exit-reason:.*" + pattern)
        scores = self.place / "scores"
        for line in scores.read_text().splitlines() if scores.exists() else ():
            words = line.split()
            self.test.assertEqual(words[:3], ["--promotion", "--lifetime=reboot", "--quiet"])
            self.score = None if words[3] == "--delete" else words[3].removeprefix("--update=")
        scores.unlink(missing_ok=True)


class Agent(MirrorTest):
    def nodes(self, *targets, more=""):
        files = [self.host(copy, *targets, more=more) for copy in (0, 5)]
        self.done("create", files[0])
        return files, [Node(self, file) for file in files]

    def started(self, *targets, more=""):
        """Two nodes of which the first one is promoted."""
        files, nodes = self.nodes(*targets, more=more)
        for node in nodes:
            node.act("start")
        nodes[0].act("promote")
        return files, nodes

    def test_another_node_takes_the_set_from_a_running_writer(self):
        (here, there), (a, b) = self.nodes(self.target(), self.target())
        a.act("monitor", NOT_RUNNING)
        a.act("start")
        b.act("start")
        self.assertEqual((a.score, b.score), ("100", "10"))
        b.act("monitor")
        a.act("promote")
        a.act("monitor", PROMOTED)
        writer = self.writer(here)
        a.act("monitor", PROMOTED)
        self.assertEqual(self.flush(writer, "acknowledged"), 0)
        # The cluster has lost node a, and the writer there does not know it.
        b.act("promote")
        b.act("monitor", PROMOTED)
        self.assertEqual((there.parent / "home").read_bytes()[:12], b"acknowledged")
        self.assertEqual(self.flush(writer, "too late"), FENCED)
        self.assertEqual((there.parent / "home").read_bytes()[:12], b"acknowledged")
        a.act("monitor", FAILED_PROMOTED, "another machine")
        self.assertEqual((a.score, b.score), ("10", "100"))
        a.act("demote")
        b.act("monitor", PROMOTED)
        self.end(writer)
        a.act("monitor")
        a.act("stop")
        self.assertIsNone(a.score)
        a.act("monitor", NOT_RUNNING)

    def test_a_writer_that_was_killed(self):
        (here, there), (a, b) = self.started(self.target(), self.target())
        writer = self.writer(here)
        self.assertEqual(self.flush(writer, "acknowledged"), 0)
        self.end(writer)
        a.act("monitor", PROMOTED)
        # Pacemaker demotes the instance that it can reach, and notifies the other one.
        a.act("demote")
        b.act("notify", OCF_RESKEY_CRM_meta_notify_type="post", OCF_RESKEY_CRM_meta_notify_operation="demote")
        self.assertEqual((a.score, b.score), ("100", "10"))
        b.act("promote")
        self.assertEqual((there.parent / "home").read_bytes()[:12], b"acknowledged")
        # The instance returns as a standby.
        a.act("monitor")
        self.assertEqual(a.score, "10")

    def test_a_node_whose_local_file_was_replaced_is_not_promoted(self):
        (here, there), (a, b) = self.started(self.target())
        a.act("demote")
        with open(here.parent / "home", "r+b") as file:
            file.truncate(4 << 20)
        a.act("promote", ARGS, "has 4194304 bytes instead of 8388608 .put the right file back")
        b.act("promote")

    def test_a_promotion_that_was_interrupted_is_repeated(self):
        (here, _), (a, _) = self.nodes(self.target())
        a.act("start")
        # The tool fails once, as if a target were lost during the opening. After that it is the real tool.
        tool = here.parent / "tool"
        tool.write_text(f"""#!/bin/sh
if [ "$1" = promote ] && [ ! -e {tool}.failed ]; then
    touch {tool}.failed
    echo '{{"error": {{"code": -110022}}}}'
    echo "rpma-mirror: interrupted" >&2
    exit 1
fi
exec {shlex.quote(TOOL)} "$@"
""")
        tool.chmod(0o755)
        a.act("promote", OCF_RESKEY_tool=str(tool))
        a.act("monitor", PROMOTED)
        self.assertTrue((here.parent / "tool.failed").exists())

    def test_demotion_stops_a_program(self):
        self.stops_a_program("demote")

    def test_a_stop_stops_a_program(self):
        self.stops_a_program("stop")

    def stops_a_program(self, action):
        (here, _), (a, _) = self.started(self.target())
        writer = self.writer(here)
        epoch = self.json("status", here)["epoch"]
        stop(writer)
        a.act("monitor", PROMOTED)
        self.assertEqual(a.score, "100")
        a.act(action)
        writer.send_signal(signal.SIGCONT)
        self.assertEqual(self.flush(writer, "too late"), FENCED)
        self.end(writer)
        promised = {copy["promised_epoch"] for copy in self.json("status", here)["copies"] if not copy["local"]}
        self.assertEqual(promised, {epoch + 1})

    def test_no_stale_copy_is_promoted(self):
        first, second = self.target(), self.target()
        (here, there), (a, b) = self.started(first, second)
        writer = self.writer(here)
        second.kill()
        self.assertEqual(self.flush(writer, "acknowledged"), 0)
        b.act("monitor")
        self.assertEqual(b.score, "10")  # the other target has it all
        first.kill()
        # The network may only be slow: then the writer keeps the set. No other machine can know what the writer has
        # stored.
        a.act("monitor", PROMOTED)
        self.end(writer)
        a.act("monitor", PROMOTED)
        b.act("monitor")
        self.assertEqual(b.score, NEVER)
        second.start()
        # The copy that responds lacks a flush.
        b.act("monitor")
        self.assertEqual(b.score, NEVER)
        b.act("promote", GENERIC, "in sync but unreachable")
        first.start()
        b.act("monitor")
        self.assertEqual(b.score, "10")
        b.act("promote")
        self.assertEqual((there.parent / "home").read_bytes()[:12], b"acknowledged")

    def test_a_silent_target_that_left_prevents_nothing(self):
        first, second = self.target(), self.target()
        (here, there), (a, b) = self.started(first, second, more="timeouts 5000 12000")
        writer = self.writer(here)
        second.kill()
        self.assertEqual(self.flush(writer, "acknowledged"), 0)
        second.start()
        stop(second.process)
        a.act("monitor", PROMOTED)
        b.act("monitor")
        self.assertEqual(b.score, "10")
        # The agent fences the program, which continues.
        a.act("demote")
        self.end(writer)
        b.act("promote")
        b.act("monitor", PROMOTED)
        self.assertEqual((there.parent / "home").read_bytes()[:12], b"acknowledged")
        b.act("demote")
        a.act("promote")
        self.done("remove", here, 2)
        a.act("stop")

    def test_a_writer_that_may_have_continued_alone(self):
        target = self.target()
        (here, _), (a, b) = self.started(target, more="policy availability")
        self.end(self.writer(here))
        b.act("monitor")
        self.assertEqual(b.score, NEVER)
        b.act("promote", GENERIC, "force")
        self.assertEqual(a.score, "100")
        a.act("promote")
        a.act("monitor", PROMOTED)

    def test_an_operator_fences(self):
        (here, _), (a, _) = self.started(self.target())
        self.done("fence", here)
        a.act("monitor", FAILED_PROMOTED, "fenced")
        a.act("promote")
        a.act("monitor", PROMOTED)

    def test_a_program_that_cannot_be_fenced(self):
        target = self.target()
        (here, _), (a, _) = self.started(target)
        writer = self.writer(here)
        target.kill()
        a.act("demote", GENERIC, "has the set open")
        a.act("stop", GENERIC, "has the set open")
        self.end(writer)
        a.act("stop")

    def test_wrong_parameters(self):
        (here, _), (a, _) = self.nodes(self.target())
        missing = str(self.place / "none")
        wrong = self.place / "wrong"
        wrong.write_text("RPMAMIRROR\nlocal zero /x 8M\n")
        a.act("start", CONFIGURED, "absolute path", OCF_RESKEY_set="")
        a.act("validate-all", CONFIGURED, "absolute path", OCF_RESKEY_set="log.set")
        a.act("validate-all", CONFIGURED, "invalid value 'soon'", OCF_RESKEY_status_timeout="soon")
        a.act("validate-all", ARGS, "not found on this machine", OCF_RESKEY_set=missing)
        a.act("start", ARGS, "'zero' is not a number", OCF_RESKEY_set=str(wrong))
        a.act("validate-all", INSTALLED, "install librpma-tools", OCF_RESKEY_tool=missing)
        a.act("validate-all", OCF_RESKEY_set=missing, OCF_CHECK_LEVEL="0")
        a.act("validate-all")
        for action in ("promote", "demote"):
            a.act(action, NOT_RUNNING, "not started")
        a.act("stop", OCF_RESKEY_set="")
        a.act("monitor", NOT_RUNNING, OCF_RESKEY_set="")
        a.act("migrate_to", UNIMPLEMENTED)
        a.act("start")
        a.act("monitor", INSTALLED, "install librpma-tools", OCF_RESKEY_tool=missing)
        slow = self.place / "slow"
        slow.write_text("#!/bin/sh\nexec sleep 60\n")
        slow.chmod(0o755)
        a.act("monitor", OCF_RESKEY_tool=str(slow), OCF_RESKEY_status_timeout="1")
        self.assertEqual(a.score, NEVER)
        a.act("promote")
        a.act("monitor", GENERIC, "did not respond within 1 s", OCF_RESKEY_tool=str(slow), OCF_RESKEY_status_timeout="1")

    @unittest.skipUnless(shutil.which("ocf-tester", path="/usr/sbin:/usr/bin"), "ocf-tester is missing: install resource-agents")
    @unittest.skipUnless(os.geteuid() == 0, "ocf-tester calls su(1), which needs root")
    def test_ocf_tester(self):
        (here, _), (a, _) = self.nodes(self.target())
        # ocf-tester calls the agent without quotes, and as a user without access to the source tree.
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o755)
            agent = shutil.copy(AGENT, place)
            os.symlink(TOOL, f"{place}/tool")
            result = execute(["/usr/sbin/ocf-tester", "-n", "log", "-o", f"set={here}", "-o", f"tool={place}/tool", agent],
                             env={**a.environment, "PATH": a.environment["PATH"] + ":/usr/sbin"}, timeout=LIMIT_S)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn(f"{agent} passed all tests", result.stdout)
        self.assertNotIn("does not support the promote", result.stdout)


if __name__ == "__main__":
    unittest.main()
