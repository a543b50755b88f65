#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons, sweeps and the choice of a library."""

import os
import pathlib
import re
import shutil
import unittest

from support import PROGRAM, SHORT, BenchTest


def own_library():
    """Path of the library in the build, or in the installation of the program."""
    for place in ("lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"):
        found = pathlib.Path(PROGRAM).parent.parent / place / "librpma.so.0"
        if found.exists():
            return found
    raise unittest.SkipTest("no librpma.so.0 beside the program")


class Compare(BenchTest):
    def other_library(self):
        """A copy of the library elsewhere, in the tree of an unpacked package."""
        place = self.place / "other/usr/lib/any-arch"
        place.mkdir(parents=True)
        shutil.copy(own_library(), place / "librpma.so.0")
        return self.place / "other"

    def compare(self, against, *words):
        done = self.bench("compare", "--transport", "softrdma", "--against", against, "--out", "c.json", "--duration", "0.4",
                          "--repeats", "3", "--warm-up", "0", "--report", "none", *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # Under any load, the last line is a verdict or the reason why there is none.
        last = [line for line in done.stdout.splitlines() if line.startswith(("No conclusion: ", "latency_p50: "))]
        self.assertEqual(len(last), 1, done.stdout)
        busy = self.result("c.json")["environment"]["client"]
        if busy["load"] > busy["cores"] / 2:
            self.assertRegex(last[0], "No conclusion: the load was .*: stop other work on the machine, or measure longer")
        return self.result("c.json")

    def check_pairs(self, result, count):
        self.assertTrue(result["complete"])
        self.assertEqual(len(result["pairs"]), count)
        for pair in result["pairs"]:
            self.assertEqual(pair["runs"], 3)
            self.assertGreater(pair["ours_value"], 0)
            self.assertGreater(pair["other_value"], 0)
            self.assertLessEqual(pair["ratio_low"], pair["ratio"])
            self.assertLessEqual(pair["ratio"], pair["ratio_high"])

    def test_against_another_library(self):
        result = self.compare(self.other_library(), "-w", "write_flush,send_recv,connect")
        self.check_pairs(result, 6)
        ours, other = result["libraries"]
        self.assertEqual((ours["label"], other["label"]), ("ours", "other"))
        self.assertEqual(ours["file"], str(own_library().resolve()))
        self.assertEqual(other["file"], str((self.place / "other/usr/lib/any-arch/librpma.so.0").resolve()))
        self.assertEqual({(p["ours"]["library"], p["other"]["library"]) for p in result["pairs"]}, {("ours", "other")})

    def test_version_is_that_of_the_library_that_ran(self):
        # A library before 1.4 does not report its version: the function is renamed.
        other = self.other_library()
        library = other / "usr/lib/any-arch/librpma.so.0"
        library.write_bytes(library.read_bytes().replace(b"\0rpma_version\0", b"\0rpma_versio_\0"))
        ours, theirs = self.compare(other, "-w", "read")["libraries"]
        version = self.bench("--version").stdout.split()[-1]
        self.assertRegex(ours["version"], rf"^{re.escape(version)} \(build [0-9a-f]{{12}}\)$")
        self.assertRegex(theirs["version"], r"^before 1\.4( \(build [0-9a-f]{12}\))?$")

    def test_against_raw_verbs(self):
        result = self.compare("verbs", "-w", "read")
        self.check_pairs(result, 2)
        self.assertEqual({(p["ours"]["api"], p["other"]["api"]) for p in result["pairs"]}, {("librpma", "verbs")})

    def test_requested_library_is_measured(self):
        self.succeeded(self.local("-w", "read", "--lib", self.other_library()))
        self.assertIn(str(self.place.resolve()), self.result()["libraries"][0]["file"])

    def test_library_of_the_environment(self):
        library = self.other_library() / "usr/lib/any-arch"
        self.succeeded(self.local("-w", "read", env={**os.environ, "LD_LIBRARY_PATH": str(library)}))
        self.assertIn(str(self.place.resolve()), self.result()["libraries"][0]["file"])


class Sweep(BenchTest):
    def test_axis_over_its_range(self):
        self.succeeded(self.bench("sweep", "depth", "--transport", "softrdma", "-w", "read", *SHORT, "--out", "r.json"))
        self.assertEqual([p["parameters"]["depth"] for p in self.result()["points"]], [1, 2, 4, 8, 16, 32, 64, 128])

    def test_against_a_server(self):
        with self.server() as (_, port):
            done = self.bench("sweep", "polling", "--server", "127.0.0.1", "--port", port, "--transport", "softrdma", "-w",
                              "gpspm", *SHORT, "--out", "r.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([p["parameters"]["polling"] for p in self.result()["points"]], ["busy", "event"])


class Profile(BenchTest):
    def test_quick_with_its_report(self):
        done = self.bench("local", "--transport", "softrdma", "--profile", "quick", "--duration", "0.01", "--warm-up", "0",
                          "--out", "r.json", "--report", "r.html")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        result = self.result()
        self.assertEqual(result["profile"], "quick")
        self.assertEqual({p["status"] for p in result["points"]}, {"done"})
        self.assertEqual({p["api"] for p in result["points"]}, {"librpma", "verbs", "tcp", "memcpy"})
        self.assertTrue((self.place / "r.html").read_text().lstrip().lower().startswith("<!doctype html"))


if __name__ == "__main__":
    unittest.main()
