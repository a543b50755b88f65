#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the results that the driver reports for cases with a known result."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from common import is_alive, wait_until  # noqa: E402

COMMAND = []
OK, FAILED, USAGE, CANNOT_RUN = 0, 1, 2, 77


def run(*arguments, command=None):
    return subprocess.run([*(command or COMMAND), *arguments], capture_output=True, text=True, timeout=60, check=False)


def run_only(name, *arguments):
    return run("--filter", f"known.{name}", *arguments)


def run_with(text, *arguments):
    """Runs the driver with a list of deviations."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        return run("--deviations", file.name, *arguments)


class DriverTest(unittest.TestCase):
    def expect(self, result, status, *texts):
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        for text in texts:
            self.assertIn(text, result.stdout + result.stderr)


class Outcomes(DriverTest):
    def test_a_case_that_passes(self):
        self.expect(run_only("passes"), OK, "ok       known.passes\n", "1 cases: 1 conform")

    def test_a_failure_that_is_not_listed_fails_the_run(self):
        self.expect(run_only("fails"), FAILED, "FAILED   known.fails: ", "gives INVAL, not NOSUPP", "cases.c:", "1 deviate,")

    def test_a_crash_fails_the_run(self):
        self.expect(run_only("crashes"), FAILED, "FAILED   known.crashes: crashed: Killed")

    def test_a_case_that_hangs_is_ended(self):
        self.expect(run_only("hangs", "--timeout", "1"), FAILED, "FAILED   known.hangs: hung: killed after 1 s")

    def test_a_skipped_case_names_the_capability(self):
        self.expect(run_only("is_skipped"), OK, "skipped  known.is_skipped: the device is imaginary", "1 skipped")

    def test_processes_of_a_case_end_with_it(self):
        result = run_only("leaves_a_process")
        self.expect(result, FAILED, "left process ")
        pid = re.search(r"left process (\d+)", result.stdout)[1]
        wait_until(lambda: not is_alive(pid), limit_s=20)

    def test_much_output_is_cut(self):
        result = run_only("prints_much")
        self.expect(result, FAILED, "FAILED   known.prints_much")
        self.assertLess(len(result.stdout), 5000)

    def test_it_reports_the_library_and_the_device(self):
        self.expect(run_only("passes"), OK, "library: /", "librpma.so.0\n", "device: ", " at 127.0.0.1: ")

    def test_without_a_device_it_cannot_run(self):
        result = run_only("passes", "--addr", "192.0.2.1")
        self.expect(result, CANNOT_RUN, "no RDMA device serves 192.0.2.1")
        self.assertEqual(result.stdout, "")


class Deviations(DriverTest):
    def test_a_listed_failure_is_expected(self):
        result = run_with("# why\n\nknown.fails\ta defect\n", "--filter", "known.fails")
        self.expect(result, OK, "known    known.fails: a defect (", "1 deviate as listed")

    def test_a_listed_case_that_passes_fails_the_run(self):
        result = run_with("known.passes\ta defect\n", "--filter", "known.passes")
        self.expect(result, FAILED, "FAILED   known.passes: passes although it is listed as a deviation: a defect",
                    "1 are listed but conform")

    def test_another_failure_still_fails_the_run(self):
        result = run_with("known.fails\ta defect\n", "--filter", "known.fails*")
        self.expect(result, FAILED, "known    known.fails: ", "FAILED   known.fails_in_an_assertion: ")

    def test_a_listed_case_that_is_skipped_is_skipped(self):
        result = run_with("known.is_skipped\ta defect\n", "--filter", "known.is_skipped")
        self.expect(result, OK, "skipped  known.is_skipped: ")

    def test_lists_that_are_wrong_are_refused(self):
        for text, message in (("known.fails\n", ":1: not a case, a tab and a reason"),
                              ("known.fails\t\n", ":1: not a case, a tab and a reason"),
                              ("#\nknown.unheard_of\ta defect\n", ":2: unknown case 'known.unheard_of'"),
                              ("known.fails\ta\nknown.fails\tb\n", ":2: 'known.fails' is listed twice")):
            self.expect(run_with(text), USAGE, message)

    def test_a_list_that_is_missing_is_refused(self):
        self.expect(run("--deviations", "/nowhere/at/all"), USAGE, "cannot read '/nowhere/at/all'")


class Formats(DriverTest):
    def test_tap(self):
        result = run("--format", "tap", "--timeout", "1")
        self.expect(result, FAILED)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[:2], ["TAP version 13", "1..8"])
        self.assertTrue(lines[2].startswith("# library: /"))
        self.assertIn("ok 1 - known.passes", lines)
        self.assertIn("not ok 2 - known.fails", lines)
        self.assertIn("ok 4 - known.is_skipped # SKIP the device is imaginary", lines)
        numbered = [line for line in lines if line.startswith(("ok ", "not ok "))]
        self.assertEqual(len(numbered), 8)

    def test_tap_of_a_listed_failure(self):
        result = run_with("known.fails\ta defect\n", "--filter", "known.fails", "--format", "tap")
        self.expect(result, OK, "not ok 1 - known.fails # TODO a defect (")

    def test_junit(self):
        result = run("--format", "junit", "--timeout", "1")
        self.expect(result, FAILED)
        suite = xml.fromstring(result.stdout)
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite.get("skipped")), ("8", "6", "1"))
        properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
        self.assertTrue(properties["library"].endswith("librpma.so.0"))
        cases = {case.get("name"): case for case in suite.iter("testcase")}
        self.assertIsNone(cases["passes"].find("failure"))
        self.assertIn('a <message> with "quotes" & more', cases["fails_in_an_assertion"].find("failure").get("message"))
        self.assertEqual(cases["is_skipped"].find("skipped").get("message"), "the device is imaginary")


class Arguments(DriverTest):
    def test_list(self):
        result = run("--list", "--filter", "*fails*")
        self.expect(result, OK)
        self.assertEqual(result.stdout, "known.fails\nknown.fails_in_an_assertion\n")

    def test_filters_add_up(self):
        result = run("--list", "-f", "known.passes", "-f", "known.h*")
        self.assertEqual(result.stdout, "known.passes\nknown.hangs\n")

    def test_help(self):
        self.expect(run("--help"), OK, "Usage: rpma-conformance", "--deviations FILE")

    def test_wrong_arguments_get_one_line(self):
        for arguments in (["--unknown"], ["extra"], ["--format", "yaml"], ["--timeout", "0"], ["--timeout", "1x"],
                          ["--timeout", ""], ["--filter"], ["--filter", "no.such.case"], ["--addr", "[::1]"], ["--addr", "localhost"]):
            result = run(*arguments)
            self.expect(result, USAGE, "rpma-conformance: ")
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


if __name__ == "__main__":
    COMMAND = sys.argv[1:]
    if not COMMAND or not os.access(COMMAND[-1], os.X_OK):
        sys.exit("usage: driver_test.py [LAUNCHER...] DRIVER")
    if run_only("passes").returncode == CANNOT_RUN:
        print("skipped: no RDMA device serves 127.0.0.1")
        sys.exit(CANNOT_RUN)
    unittest.main(argv=sys.argv[:1])
