#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the summary of utils/test."""

import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
SCRIPT = str(pathlib.Path(__file__).resolve().parents[2] / "utils" / "test")
loader = importlib.machinery.SourceFileLoader("lanes", SCRIPT)
lanes = importlib.util.module_from_spec(importlib.util.spec_from_loader("lanes", loader))
loader.exec_module(lanes)


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

    def test_a_lane_that_would_start_late_is_skipped(self):
        total = lanes.Total()
        with contextlib.redirect_stdout(io.StringIO()):
            lanes.run_lanes(["vm"], -1, total, False)
        self.assertEqual({"skipped": 1}, total.counts)
        self.assertRegex(total.remarks[0], "^skipped: vm: the lanes before it took 0 minutes")


if __name__ == "__main__":
    unittest.main()
