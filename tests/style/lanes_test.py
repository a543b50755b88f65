#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of utils/test: its summary, and the order of the tests."""

import contextlib
import io
import pathlib
import re
import subprocess
import tempfile
import unittest
import unittest.mock

import scripts

lanes = scripts.load("test")


class Summary(unittest.TestCase):
    def shown(self, *reasons):
        total = lanes.Total()
        for number, reason in enumerate(reasons):
            total.add("skipped", f"dev: test{number}", reason)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            total.show()
        return output.getvalue()

    def test_one_line_counts_the_tests_without_two_hosts(self):
        output = self.shown("no network namespace can be created here", "no network namespace can be made here", "spin is missing")
        lines = [line for line in output.splitlines() if "unproven" in line]
        self.assertEqual(1, len(lines), output)
        self.assertRegex(lines[0], "^2 tests had no network namespace.*sysctl")

    def test_without_such_tests_there_is_no_line(self):
        self.assertNotIn("unproven", self.shown("spin is missing"))

    def test_a_lane_that_would_end_late_is_skipped(self):
        total = lanes.Total()
        with contextlib.redirect_stdout(io.StringIO()):
            lanes.run_lanes(["vm"], 19, total, False)
        self.assertEqual({"skipped": 1}, total.counts)
        self.assertEqual("skipped: vm: it usually takes 20 minutes, and 19 are left", total.remarks[0])

    def test_a_part_builds_only_what_its_tests_need(self):
        for part, built in {"quick": ["quick_tests"], "core": [f"quick_tests_{suite}" for suite in lanes.CORE_SUITES], "long": [],
                            "": []}.items():
            with self.subTest(part), unittest.mock.patch.object(lanes, "run", side_effect=[True, False]) as run:
                lanes.run_lane("dev", part, lanes.Total(), False)
                command = run.call_args.args[0]
                self.assertEqual(["--target", *built] if built else [], [word for word in command[4:] if word not in ("--", "--quiet")])


class Order(unittest.TestCase):
    PROJECT = """cmake_minimum_required(VERSION 3.25)
project(order NONE)
enable_testing()
foreach(test short middle long)
  add_test(NAME ${test} COMMAND true)
endforeach()
"""

    PRESETS = """{ "version": 6, "configurePresets": [{ "name": "lane", "binaryDir": "${sourceDir}/build/lane" }],
        "testPresets": [{ "name": "lane", "configurePreset": "lane", "execution": { "jobs": 2 } }] }"""

    def setUp(self):
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(unittest.mock.patch.multiple(lanes, ROOT=root, DURATIONS=root / "durations"))
        (root / "CMakeLists.txt").write_text(self.PROJECT)
        (root / "CMakePresets.json").write_text(self.PRESETS)
        lanes.DURATIONS.write_text("# seconds\nlong 90\nmiddle 40\nmirror.etcd 30\n")
        self.build = root / "build" / "lane"
        subprocess.run(["cmake", "-S", root, "-B", self.build], stdout=subprocess.DEVNULL, check=True)

    def test_long_tests_start_first_until_ctest_has_measured_them(self):
        lanes.start_long_tests_first("lane")
        output = subprocess.run(
            ["ctest", "--test-dir", self.build, "--parallel", "2"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(["long", "middle", "short"], re.findall(r"Start +\d+: (\w+)", output))
        costs = self.build / "Testing" / "Temporary" / "CTestCostData.txt"
        measured = costs.read_text()
        lanes.start_long_tests_first("lane")
        self.assertEqual(measured, costs.read_text())

    def test_the_parts_of_a_lane_contain_each_test_once(self):
        for part, tests in {"quick": {"short"}, "long": {"long", "middle"}, "": {"short", "long", "middle"},
                            "others": {"short", "long", "middle"}}.items():
            with self.subTest(part), unittest.mock.patch.object(lanes, "run", self.run_quietly):
                total = lanes.Total()
                lanes.run_tests("lane", part, total, False)
                self.assertEqual({f"lane: {test}" for test in tests}, total.test_seconds.keys())
                self.assertEqual({"passed": len(tests)}, total.counts)

    def test_core_and_others_contain_each_test_once(self):
        core = ["rpmem.loss_test", "softrdma.data", "softrdma.signaling.auto"]
        others = ["softrdma.data.tcp", "mirror.loss_test_tcp", "softrdma.data.shm-fd", "softrdma.programs.local.fio", "unit.mr",
                  "mirror.etcd"]
        for part, tests in {"core": core, "others": others}.items():
            self.assertEqual(tests, [test for test in core + others if lanes.is_in_part(test, part)])

    @staticmethod
    def run_quietly(command):
        return subprocess.run(command, cwd=lanes.ROOT, stdout=subprocess.DEVNULL, check=False).returncode == 0


if __name__ == "__main__":
    unittest.main()
