#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Result files, plans and the output of a comparison."""

import copy
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.environ["RPMA_BENCH_MODULES"])
from rpma_bench import common, measure, plan, results  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


class Results(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="rpma-bench-results-")))
        self.sample = self.place / "sample.json"
        subprocess.run([sys.executable, HERE / "report/sample.py", self.sample], check=True)

    def test_saved_file_is_loaded_as_it_was(self):
        whole = results.load(self.sample)
        results.save(self.sample, whole)
        self.assertEqual(results.load(self.sample), whole)
        self.assertEqual([entry.name for entry in self.place.iterdir()], ["sample.json"])

    def test_wrong_value_is_named_with_its_place(self):
        whole = results.load(self.sample)
        for change, place in ((("points", 0, "parameters", "depth", -1), r"points\[0\]\.parameters\.depth: is not a whole number"),
                              (("points", 0, "api", "smtp"), r"points\[0\]\.api: is not one of librpma"),
                              (("points", 0, "repeats", 0, "ops_per_s", "many"), r"repeats\[0\]\.ops_per_s: is not a number"),
                              (("points", 0, "repeats", 0, "latency_ns", "percentiles", [[99, 2], [50, 1]]), "must ascend"),
                              (("points", 0, "section", 3), r"points\[0\]\.section"),
                              (("environment", "notes", 5), r"environment\.notes: is not a list"),
                              (("complete", 1), r"complete: is not true or false"), (("points", None), r"\"points\" is missing")):
            with self.subTest(change=change):
                broken = copy.deepcopy(whole)
                at = broken
                for step in change[:-2]:
                    at = at[step]
                at[change[-2]] = change[-1]
                with self.assertRaisesRegex(common.Failure, place):
                    results.checked(broken, "f")

    def test_no_input_is_a_traceback(self):
        text = self.sample.read_text()
        for cut in range(0, len(text), len(text) // 8):
            with self.assertRaisesRegex(common.Failure, "cut short|is not JSON"):
                results.checked(results.parse_json(text[:cut], "f"), "f")
        for junk in "[1e400]", "null", "7", '"x"', "[" * 100000, '{"format": "rpma-bench-results", "version": []}':
            with self.assertRaises(common.Failure):
                results.checked(results.parse_json(junk, "f"), "f")


class Numbers(unittest.TestCase):
    def test_three_digits_and_a_unit(self):
        for value, unit, text in ((4096, "bytes", "4 KiB"), (12345, "ns", "12.3 µs"), (999.7, "ns", "1.00 µs"), (1.25e9, "bytes_per_s", "1.25 GB/s"),
                                  (812000, "per_s", "812 k/s"), (0, "ns", "0 ns"), (1.019, "ratio", "1.02"), (3, "", "3")):
            self.assertEqual(common.number(value, unit), text)
        self.assertEqual((common.duration(92), common.count(1234, "point"), common.count(1, "run")), ("1 min 32 s", "1,234 points", "1 run"))


class Plans(unittest.TestCase):
    def test_no_repetitions(self):
        self.assertEqual(len(plan.expand(["atomic_write", "connect"], block_size=[64, 4096])), 2)
        self.assertEqual(len(plan.expand(["read", "write_flush"], block_size=[64, 4096], api=["librpma", "memcpy"])), 8)

    def test_quick_takes_less_than_two_minutes(self):
        quick, standard, full = map(plan.profile, ("quick", "standard", "full"))
        self.assertLess(quick.timing.estimate_s(len(quick.setups)), 110)
        self.assertLess(len(quick.setups), len(standard.setups))
        self.assertLess(len(standard.setups), len(full.setups))

    def test_slow_points_make_the_estimate_longer(self):
        bar = measure.Progress(10, 20)
        self.assertEqual(bar.left_s(0, 0), 20)
        self.assertEqual(bar.left_s(2, 30), 8 * 15)
        self.assertEqual(bar.left_s(2, 1), 8 * 2)  # a fast start does not reduce the estimate
        self.assertEqual(bar.left_s(10, 300), 0)


class Verdicts(unittest.TestCase):
    def test_interval_that_contains_one_is_no_difference(self):
        for ratio, low, high, lower, words in ((0.9, 0.85, 0.95, True, "better"), (0.9, 0.85, 0.95, False, "worse"),
                                               (0.9, 0.8, 1.01, True, "no difference"), (1.02, 1.01, 1.03, True, "no difference"),
                                               (1.2, 1.1, 1.3, True, "worse")):
            self.assertEqual(measure.verdict_on(ratio, low, high, lower), words)

    def test_busy_machine_and_scattered_runs_allow_no_conclusion(self):
        quiet, busy = {"load": 0.1, "cores": 4}, {"load": 2.5, "cores": 4}
        def result(host, *pairs):
            return {"environment": {"client": quiet, "server": host}, "pairs": [{"ratio_low": low, "ratio_high": high} for low, high in pairs]}
        self.assertEqual(measure.inconclusive_reason(result(quiet, (0.9, 1.1))), "")
        self.assertIn("the load was 2.5 on 4 processors", measure.inconclusive_reason(result(busy, (0.9, 1.1))))
        self.assertIn("1 of 2 comparisons differ", measure.inconclusive_reason(result(quiet, (0.9, 1.1), (0.5, 1))))


if __name__ == "__main__":
    unittest.main()
