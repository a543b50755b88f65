#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Campaigns over a real ssh: on the loopback interface, or with the server in another network namespace."""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [os.environ["RPMA_BENCH_MODULES"], str(HERE.parent / "rpmem")]
import sshd  # noqa: E402
from rpma_bench import campaign, common, ends, sites  # noqa: E402
from support import LIMIT_S, PROGRAM, BenchTest, directory, processes_naming  # noqa: E402

ADDRESS = os.environ.get("TARGET_ADDRESSES", "127.0.0.1").split()[0]
AT_TARGET = os.environ.get("AT_TARGET", "").split()
ENGINES = os.environ.get("RPMA_FIO_ENGINES", "")
INTERRUPTED = {"timing": {"repeats": 2, "duration_s": 0.5, "warm_up_s": 0},
               "matrix": [{"workload": ["read"], "block_size": [64, 128, 256, 512]}]}


class Campaign(BenchTest):
    @classmethod
    def setUpClass(cls):
        home = directory(cls, prefix="rpma-bench-ssh-")
        cls.sshd = sshd.Sshd(home, [ADDRESS], home, os.environ["PATH"], prefix=AT_TARGET)
        cls.addClassCleanup(cls.sshd.stop)
        cls.sshd.wait()

    def config(self, name="night.json", **changes):
        """A campaign of three points. The target's own directory identifies its processes."""
        target = self.place / "target"
        target.mkdir(exist_ok=True)
        server = {"ssh": f"ssh://{self.sshd.target(ADDRESS)}", "ssh_command": self.sshd.client(), "program": PROGRAM,
                  "address": ADDRESS, "target": str(target)}
        changed = changes.pop("server", {}) # one host measures if this is None
        whole = {"transport": "softrdma", "server": {"target": str(target)} if changed is None else server | changed,
                 "matrix": [{"workload": ["read", "gpspm"], "block_size": [64]}, {"workload": ["write_flush"], "flush": ["persistent"]}],
                 "timing": {"repeats": 2, "duration_s": 0.02, "warm_up_s": 0}}
        (self.place / name).write_text(json.dumps(whole | changes))
        return name

    def campaign(self, *words):
        return self.bench("campaign", *words)

    def check_nothing_is_left(self):
        end = time.monotonic() + 30
        while (left := [line for line in processes_naming(str(self.place)) if "sshd" not in line]) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(left, [])

    def test_campaign_with_commands_around_each_point(self):
        hooks = {"before": ["echo before $POINT_NUMBER"], "during": [f"echo in {self.place}; exec sleep 1000"],
                 "after": ["echo after; uname -n"]}
        node = 0 if shutil.which("numactl") and pathlib.Path("/sys/devices/system/node/node0").exists() else None
        placed = {} if node is None else {"numa_node": node}
        self.config(server=hooks | placed, client=hooks | placed, title="A night",
                    report={"ceiling_gbit_s": 100, "text": {"introduction": "Why we measure."}, "configuration": {"BIOS": ["1.2", "3.4"]}})
        self.succeeded(self.campaign("night.json"))
        result = self.result("night/results.json")
        self.assertTrue(result["complete"])
        self.assertEqual([(p["workload"], p["status"]) for p in result["points"]],
                         [("read", "done"), ("gpspm", "done"), ("write_flush", "done")])
        for point in result["points"]:
            self.assertEqual([r["verified"] for r in point["repeats"]], [True, True])
        self.assertEqual(result["points"][2]["parameters"]["target"], "file")
        self.assertIn(str(self.place / "target"), result["environment"]["target_memory"])
        logs = {path.name: path.read_text() for path in (self.place / "night/commands").iterdir()}
        self.assertEqual(len(logs), 3 * 2 * 3)
        self.assertIn("before 2\n", logs["0002-server-before-0.log"])
        self.assertIn(f"in {self.place}\n", logs["0001-client-during-0.log"])
        here, there = (subprocess.run([*at, "uname", "-n"], capture_output=True, text=True, check=True).stdout for at in ([], AT_TARGET))
        self.assertIn(here, logs["0000-client-after-0.log"])
        self.assertIn(there, logs["0000-server-after-0.log"])
        page = (self.place / "night/report.html").read_text()
        for words in "<h1>A night</h1>", "Why we measure.", "<td>BIOS</td><td>1.2</td><td>3.4</td>":
            self.assertIn(words, page)
        self.assertTrue((self.place / "night/report.md").read_text().startswith("# A night\n"))
        if node is not None:
            self.assertIn("The server ran on NUMA node 0.", result["environment"]["notes"])
        self.check_nothing_is_left()
        self.refused(self.campaign("night.json"), 2, "results.json: exists")

    def interrupted(self, number, name="night.json", **changes):
        """A campaign that a signal interrupted after its first point, and its result."""
        self.config(name, **changes, **INTERRUPTED)
        with self.running(PROGRAM, "campaign", name) as running:
            end = time.monotonic() + LIMIT_S
            while (line := running.stdout.readline()) and "[1/4" not in line and time.monotonic() < end:
                pass
            running.send_signal(number)
            _, stderr = running.communicate(timeout=LIMIT_S)
        self.assertEqual(running.returncode, -number)
        self.check_nothing_is_left()
        result = self.result(f"{pathlib.Path(name).stem}/results.json")
        self.assertFalse(result["complete"])
        return result, stderr

    def test_interrupted_campaign_continues_and_keeps_what_is_done(self):
        before, stderr = self.interrupted(signal.SIGTERM)
        self.assertRegex(stderr, "^rpma-bench: interrupted: the completed points are in night/results.json \\(continue with "
                                 "rpma-bench campaign night.json --out night --resume\\)\n$")
        self.succeeded(self.campaign("night.json", "--resume"))
        after = self.result("night/results.json")
        self.assertTrue(after["complete"])
        self.assertEqual(after["points"][0], before["points"][0])
        self.assertEqual(len(after["sections"]), 1)

    def test_campaign_on_one_machine_continues_with_the_same_timing(self):
        _, stderr = self.interrupted(signal.SIGTERM, name="Anna's night.json", server=None)
        command = re.search(r"\(continue with (.*)\)$", stderr)[1]
        self.config("Anna's night.json", server=None, **INTERRUPTED | {"timing": {"repeats": 3, "duration_s": 0.5, "warm_up_s": 0}})
        self.refused(self.bench(*shlex.split(command)[1:]), 2, "the timing changed: repeats was '2' and is '3'")
        self.config("Anna's night.json", server=None, **INTERRUPTED)
        self.succeeded(self.bench(*shlex.split(command)[1:]))
        self.assertEqual(len(self.result("Anna's night/results.json")["sections"]), 1)

    def test_changed_environment_is_distinguished(self):
        self.interrupted(signal.SIGKILL)
        other = self.place / "other"
        other.mkdir()
        self.config(server={"target": str(other)}, **INTERRUPTED)
        self.refused(self.campaign("night.json", "--resume"), 2, "the environment changed: target memory was .*/target' and is .*/other'")
        self.succeeded(self.campaign("night.json", "--resume", "--label", "other disk"))
        result = self.result("night/results.json")
        self.assertEqual([section["label"] for section in result["sections"]], ["", "other disk"])
        self.assertEqual([p["section"] for p in result["points"]][::3], [0, 1])
        page = (self.place / "night/report.html").read_text()
        for heading in "<h3>results, part 1</h3>", "<h3>results, other disk</h3>":
            self.assertIn(heading, page)
        self.config(matrix=[{"workload": ["read"], "block_size": [64]}])
        self.refused(self.campaign("night.json", "--resume"), 2, "has other points than night.json")

    def test_command_that_fails_fails_its_point(self):
        self.config(server={"after": ["echo broken; test $POINT_NUMBER != 1"]})
        done = self.campaign("night.json")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual([p["status"] for p in self.result("night/results.json")["points"]], ["done", "failed", "done"])
        self.assertIn("FAILED: after the point, server: ", done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_far_side_that_is_missing_is_named(self):
        self.config(server={"program": "/nowhere/rpma-bench"})
        self.refused(self.campaign("night.json"), 1, "ssh ended: .*nowhere/rpma-bench.*is rpma-bench installed there")
        self.config(server={"target": "/nowhere"})
        self.refused(self.campaign("night.json"), 1, "did not start: cannot use the target /nowhere")
        self.assertFalse((self.place / "night").exists())

    @unittest.skipUnless(ENGINES, "the engines of fio are not part of this build (RPMA_FIO_SOURCE)")
    def test_fio_drives_points(self):
        parts = [{"workload": ["read", "write_flush", "mix", "gpspm", "aof", "log_append"], "polling": ["event"], "driver": "fio"},
                 {"workload": ["read", "send_recv"], "polling": ["event"]}, {"workload": ["send_recv"], "driver": "fio"}]
        self.config(fio={"engines": ENGINES}, matrix=parts, timing={"repeats": 1, "duration_s": 1, "warm_up_s": 0})
        self.succeeded(self.campaign("night.json"))
        points = self.result("night/results.json")["points"]
        self.assertEqual([p["status"] for p in points], ["done"] * 8 + ["skipped"])
        for point in points[:6]:
            self.assertGreater(point["repeats"][0]["operations"], 0)
        self.assertGreater(points[2]["repeats"][0]["writes"]["operations"], 0)
        self.assertIn("results, fio", (self.place / "night/report.html").read_text())
        self.check_nothing_is_left()


class Files(BenchTest):
    def plan(self, text, *words):
        (self.place / "c.toml").write_text(text)
        return self.bench("campaign", "c.toml", "--plan", *words)

    def test_matrix_of_the_old_script(self):
        for done in self.plan("", "--like", "rpma_fio_bench"), self.plan('matrix = [{like = "rpma_fio_bench"}]\n'):
            self.assertTrue(self.succeeded(done).stdout.splitlines()[-1].startswith("590 points, "))
            self.assertEqual(len(done.stdout.splitlines()), 591)
            for words in "aof 256 B librpma\n", "log_append 64 KiB librpma depth 2 load 99 %\n", "mix 4 KiB librpma depth 128 reads 70 % random\n":
                self.assertIn(words, done.stdout)

    def test_quick_ends_in_ten_minutes(self):
        last = self.plan("", "--like", "rpma_fio_bench", "--quick").stdout.splitlines()[-1]
        found = re.fullmatch(r"120 points, about (\d+) min \d+ s", last)
        self.assertTrue(found and int(found[1]) < 10, last)

    def test_wrong_files_are_named(self):
        for text, pattern in (("x", "is neither TOML nor JSON"), ("frob = 1", 'unknown key "frob"'), ("server = 5", "server: is not a table"),
                              ('[server]\ndirect_write = "maybe"', "direct_write: is not one of auto, on, off"),
                              ("[timing]\nrepeats = 0", "timing: choose 1 to 1000 repeats"), ('[timing]\nrepeats = "x"', "repeats: is not a whole"),
                              ('matrix = [{workload = ["frob"]}]', "unknown workload 'frob'"), ('matrix = [{api = ["frob"]}]', "unknown api 'frob'"),
                              ('matrix = [{profile = "quick", depth = [1]}]', "choose one"), ("[report]\nfrob = 1", 'unknown key "frob"'),
                              ('matrix = [{depth = [0]}]', "depth 0 is out of range"), ('[client]\nbefore = "x"', "before: is not a list")):
            with self.subTest(text=text):
                self.refused(self.plan(text), 2, pattern)
        self.refused(self.bench("campaign", "none.toml"), 1, "none.toml: cannot open")


class Sites(unittest.TestCase):
    def test_ddio_is_switched_and_restored(self):
        with tempfile.TemporaryDirectory() as place:
            # Replaces the tool, which needs a processor with the switch.
            tool, state = pathlib.Path(place, "rpma-ddio"), pathlib.Path(place, "state")
            tool.write_text(f'#!/bin/sh\n[ $# = 0 ] && exec cat {state}\n[ -e {state}.locked ] && exit 77\necho $1 >{state}\n')
            tool.chmod(0o755)
            state.write_text("on\n")
            site = sites.Site(ends.Programs(pathlib.Path("none"), pathlib.Path(place), "0"))
            self.assertEqual((site.ddio(), site.ddio("on")), ("on", "on"))
            self.assertEqual((site.ddio("off"), state.read_text()), ("off", "off\n"))
            site.close()
            self.assertEqual(state.read_text(), "on\n")
            pathlib.Path(f"{state}.locked").touch()
            with self.assertRaisesRegex(common.Failure, "cannot switch DDIO off") as caught:
                site.ddio("off")
            self.assertEqual(caught.exception.status, 77)

    def test_environments_differ_but_for_the_load(self):
        before = {"client": {"kernel": "6.1", "load": 0.1}, "notes": ["DDIO of the server: on."]}
        after = {"client": {"kernel": "6.2", "load": 0.9}, "notes": ["DDIO of the server: off."]}
        self.assertEqual(campaign.differences(before, after), ["client's kernel was '6.1' and is '6.2'",
                                                               "notes was 'DDIO of the server: on.' and is 'DDIO of the server: off.'"])


if __name__ == "__main__":
    if sshd.lacking():
        print(f"skipped: {sshd.lacking()}")
        sys.exit(77)
    unittest.main()
