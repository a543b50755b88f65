#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Content of figures. A value must be equal in all places where it occurs."""

import dataclasses
import os
import pathlib
import re
import runpy
import sys
import unittest

sys.path.insert(0, os.environ["RPMA_BENCH_MODULES"])
from rpma_bench.report import charts, command, entries, figures  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.argv[1:1] = [os.devnull]
SAMPLE = runpy.run_path(str(HERE / "sample.py"))
sys.argv.pop(1)


def report(*points, pairs=()):
    """Creates runs, entries and figures of these points."""
    result = SAMPLE["results"]() | {"points": list(points), "pairs": list(pairs)}
    runs = [entries.Run("r", result)]
    created = entries.entries_of(runs)
    return runs, created, figures.figures_of(runs, created)


def titled(drawn, start):
    return [f for f in drawn if f.title.startswith(start)]


class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runs = [entries.Run("sample", SAMPLE["results"]())]
        cls.entries = entries.entries_of(cls.runs)
        cls.drawn = figures.figures_of(cls.runs, cls.entries)

    def test_every_group_is_drawn_from_the_sample(self):
        self.assertEqual({f.group for f in self.drawn}, set(figures.SECTIONS))

    def test_value_is_the_same_wherever_it_stands(self):
        for f in self.drawn:
            if f.kind != "lines":
                continue
            picture, table = charts.draw(f, "f1"), command.table_of_figure(f)
            cells = {c["text"].removesuffix(" !") for row in table["rows"] for c in row[1:]}
            for line in f.series:
                for _, s in line.data:
                    words = command.number(s.median, f.y.unit)
                    self.assertIn(words, cells, f.title)
                    self.assertIn(f": {words} (", picture, f.title)

    def test_markers_lie_on_their_lines(self):
        for f in self.drawn:
            if f.kind == "lines":
                picture = charts.draw(f, "f1")
                corners = {corner for d in re.findall(r'class="c\d line[^"]*" d="M([^"]*)"', picture) for corner in d.split("L")}
                marks = set(re.findall(r'class="c\d mark[^"]*" d="M([\d.]+ [\d.]+)m', picture))
                self.assertEqual(marks, corners & marks, f.title)
                self.assertGreater(len(marks), 1)

    def test_every_place_counts_the_same_points(self):
        count = len(self.runs[0].result["points"])
        page = command.page_of(self.runs, "", (), {})
        self.assertIn(f"{count} points", page["facts"])
        self.assertEqual(len([e for e in self.entries if not e.half]), count)
        self.assertEqual(len(page["points"]["rows"]), len(self.entries))
        self.assertEqual(len(page["missing"]["rows"]), 2)

    def test_logarithmic_axes_are_labeled(self):
        self.assertIn("block size, log scale", charts.draw(titled(self.drawn, "Latency side by side")[0], "f1"))

    def test_all_ratios_of_a_metric_are_in_one_figure(self):
        self.assertEqual(len(titled(self.drawn, "Overhead of the library")), 1)
        self.assertGreater(len(titled(self.drawn, "Overhead of the library")[0].rows), 10)
        run = self.runs[0]
        busy = run.result["environment"] | {"server": {"cores": 2, "load": 9.0}}
        drawn = figures.figures_of([dataclasses.replace(run, result=run.result | {"environment": busy})], self.entries)
        self.assertIn("No conclusion: the load was 9.0", titled(drawn, "Overhead of the library")[0].caption)
        compared = titled(self.drawn, "Libraries compared")
        self.assertEqual([len(f.rows) for f in compared], [4])
        self.assertEqual(compared[0].sides, ("librpma 1.4.0", "librpma 1.3.0"))

    def test_other_memory_is_another_figure(self):
        point = SAMPLE["point"]
        points = [point(name, "librpma", 1000, {"block_size": size}) for name in ("read", "rpmem_persist") for size in (64, 256, 1024)]
        _, created, drawn = report(*points)
        found = titled(drawn, "Median latency of each operation")
        self.assertEqual(len(found), 2)
        self.assertEqual({entries.memory(e) for e in created}, {"private DRAM", "mapped file of the replica"})
        self.assertTrue(any("mapped file of the replica" in f.title for f in found))

    def test_first_card_is_not_about_a_disk(self):
        point = SAMPLE["point"]
        runs, created, drawn = report(point("write_flush", "librpma", 9e6, {"flush": "persistent", "target": "file"}),
                                   point("write_flush", "librpma", 9e3, {"flush": "visibility"}))
        self.assertEqual(command.cards_of(created, drawn)[0]["value"], "8.20 µs")
        self.assertEqual(len(runs), 1)

    def test_nine_series_and_more_are_distinguishable(self):
        looks = {(i % charts.COLORS, i % len(charts.SHAPES), i >= charts.COLORS) for i in range(16)}
        self.assertEqual(len(looks), 16)
        blues = 0, 5  # colors of the style sheet
        self.assertEqual(len({charts.SHAPES[i % len(charts.SHAPES)] for i in blues}), 2)

    def test_runs_and_spread_are_in_the_caption_and_scattered_points_are_marked(self):
        wide = SAMPLE["point"]("read", "librpma", 1000, {"block_size": 64})
        for r in wide["repeats"][:1]:
            r["latency_ns"]["percentiles"] = [[50, 5000]]
        _, _, drawn = report(wide, *(SAMPLE["point"]("read", "librpma", 1000, {"block_size": size}) for size in (256, 1024)))
        f = titled(drawn, "Median latency of each operation")[0]
        self.assertRegex(f.caption, r"Median of 3 runs; .* factor of 5\.\d\d apart; hollow: ")
        self.assertEqual(charts.draw(f, "f").count("mark wide"), 1)
        self.assertEqual(sum(c["text"].endswith(" !") for row in command.table_of_figure(f)["rows"] for c in row), 1)

    def test_baseline_with_another_wait_method_has_its_bar(self):
        point = SAMPLE["point"]
        _, _, drawn = report(point("read", "librpma", 1000, {}), point("read", "tcp", 3000, {"polling": "event"}))
        bars = [row["label"] for f in drawn if f.kind == "bars" for row in f.rows]
        self.assertEqual(bars, ["librpma, busy polling", "plain TCP, waiting for events"])

    def test_ceiling_is_drawn_in_figures_of_bandwidth(self):
        f = titled(self.drawn, "Bandwidth of each operation")[0]
        self.assertIn("ceiling 12.5 GB/s", charts.draw(f, "f", 12.5e9))
        self.assertNotIn("ceiling", charts.draw(titled(self.drawn, "Latency over depth")[0], "f", 12.5e9))


class Campaigns(unittest.TestCase):
    def test_confidence_of_few_runs_is_not_more_than_they_allow(self):
        _, low, high, confidence = figures.confidence_interval([2, 2.1, 2.2], [1, 1.1, 1.05])
        self.assertAlmostEqual(confidence, 1 - 2 / 20)
        self.assertEqual((low, high), (2 / 1.1, 2.2))
        self.assertEqual(figures.confidence_interval([2], [1])[3], 0)
        # Table of the rank sum for two samples of 5: 2 of 252 arrangements are left out at 95 %, with U up to 2.
        ours, other = [10, 11, 12, 13, 14], [1, 1.01, 1.02, 1.03, 1.04]
        _, low, _, confidence = figures.confidence_interval(ours, other)
        self.assertAlmostEqual(confidence, 1 - 2 * (1 + 1 + 2) / 252)
        self.assertEqual(low, sorted(a / b for a in ours for b in other)[2])

    def test_points_of_two_campaigns_stand_side_by_side(self):
        point = SAMPLE["point"]
        def run(name, mean):
            return entries.Run(name, SAMPLE["results"]() | {"points": [point("read", "librpma", mean, {})], "pairs": []})
        runs = [run("before", 10000), run("after", 5000)]
        rows = list(figures.campaigns_compared(runs, entries.entries_of(runs)))
        latency = next(row for row in rows if row["metric"] == "median latency")
        self.assertEqual((latency["base"], latency["run"], latency["verdict"], latency["confidence"]), ("before", "after", "better", "90%"))

    def test_changed_environment_makes_two_runs(self):
        result = SAMPLE["results"]()
        changed = result["environment"] | {"notes": ["DDIO off"]}
        result["sections"] = [{"label": "", "environment": result["environment"]}, {"label": "DDIO off", "environment": changed}]
        for p in result["points"][10:]:
            p["section"] = 1
        first, second = command.runs_of("night.json", result, [])
        self.assertEqual((first.name, second.name), ("night, part 1", "night, DDIO off"))
        self.assertEqual((len(first.result["points"]), second.result["environment"]["notes"]), (10, ["DDIO off"]))


if __name__ == "__main__":
    unittest.main()
