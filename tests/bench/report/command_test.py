# SPDX-License-Identifier: BSD-3-Clause
"""`rpma-bench report`, run as a command."""

import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BENCH = os.environ["RPMA_BENCH"]


class CommandTest(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="rpma-bench-report-")))
        self.sample = self.directory / "sample.json"
        subprocess.run([sys.executable, HERE / "sample.py", self.sample], check=True)

    def report(self, *arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([BENCH, "report", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                              check=False, **more)

    def assert_fails(self, result: subprocess.CompletedProcess[str], code: int, words: str) -> None:
        self.assertEqual(result.returncode, code, result)
        self.assertEqual(result.stdout, "")
        self.assertIn(words, result.stderr)
        if code == 1:
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_the_report_is_written_beside_the_results(self) -> None:
        result = self.report(self.sample)
        self.assertEqual((result.returncode, result.stdout), (0, f"{self.directory}/sample.html\n"), result)
        page = (self.directory / "sample.html").read_text(encoding="utf-8")
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        for heading in ("Latency", "Bandwidth and rate", "Against another library", "Environment"):
            self.assertIn(f"<h2>{heading}</h2>", page)

    def test_nothing_in_the_page_leads_elsewhere(self) -> None:
        page = self.report(self.sample, "--out", "-").stdout
        for hook in ("http://", "https://", "@import", "url(", "<link rel=\"stylesheet\"", " src="):
            self.assertNotIn(hook, page)

    def test_figures_names_the_groups_to_draw(self) -> None:
        page = self.report(self.sample, "--out", "-", "--figures", "mix,cpuload").stdout
        self.assertIn('<section id="mix">', page)
        self.assertIn('<section id="cpuload">', page)
        self.assertNotIn('<section id="latency">', page)

    def test_the_csv_has_a_row_for_each_point(self) -> None:
        rows = list(csv.DictReader(io.StringIO(self.report(self.sample, "--format", "csv", "--out", "-").stdout)))
        points = json.loads(self.sample.read_text(encoding="utf-8"))["points"]
        self.assertEqual(len([row for row in rows if not row["half"]]), len(points))
        row = next(row for row in rows if row["workload"] == "read" and row["api"] == "tcp")
        medians = sorted(dict(map(tuple, repeat["latency_ns"]["percentiles"]))[50]
                         for repeat in next(p for p in points if p["api"] == "tcp")["repeats"])
        self.assertAlmostEqual(float(row["latency_p50_ns"]), medians[1], delta=0.01)

    def test_markdown_has_title_figures_and_gaps(self) -> None:
        text = self.report(self.sample, "--format", "markdown", "--out", "-", "--title", "Mine").stdout
        self.assertTrue(text.startswith("# Mine\n"))
        for heading in ("Notes", "Missing results", "Every point", "Environment"):
            self.assertIn(f"\n## {heading}\n", text)

    def test_several_files_and_old_ones_make_one_report(self) -> None:
        result = self.report(self.sample, HERE.parent / "old_framework" / "bench.json", "--out", self.directory / "both.html")
        self.assertEqual(result.returncode, 0, result)
        page = (self.directory / "both.html").read_text(encoding="utf-8")
        self.assertIn("<h3>sample</h3>", page)
        self.assertIn("<h3>bench</h3>", page)
        self.assertNotIn("hunter2", page)

    def test_a_csv_file_that_was_read_is_not_written_over(self) -> None:
        rows = self.directory / "apm_write_pmem.csv"
        rows.write_text("bs,lat_avg\n64,3\n", encoding="utf-8")
        result = self.report(rows, "--format", "csv")
        self.assertEqual(result.stdout, f"{self.directory}/apm_write_pmem-report.csv\n", result)
        self.assertEqual(rows.read_text(encoding="utf-8"), "bs,lat_avg\n64,3\n")

    def test_wrong_input_gives_one_line(self) -> None:
        missing = self.directory / "no.json"
        self.assert_fails(self.report(missing), 1, f"rpma-bench: {missing}: cannot open: No such file or directory")
        cut = self.directory / "cut.json"
        cut.write_text(self.sample.read_text(encoding="utf-8")[:5000], encoding="utf-8")
        self.assert_fails(self.report(cut), 1, f"rpma-bench: {cut}:1: ends in the middle: the file was cut short")
        later = self.directory / "later.json"
        later.write_text('{"format":"rpma-bench-results","version":9}', encoding="utf-8")
        self.assert_fails(self.report(later), 1, f"{later}: is of version 9, and this rpma-bench reads 1")
        self.assert_fails(self.report(self.directory), 1, "cannot read: Is a directory")

    def test_a_wrong_command_line_is_usage(self) -> None:
        self.assert_fails(self.report(), 2, "required: RESULT")
        self.assert_fails(self.report(self.sample, "--format", "pdf"), 2, "invalid choice: 'pdf' (choose from")
        self.assert_fails(self.report(self.sample, "--figures", "cats"), 2, "cats")

    def test_write_errors_are_reported(self) -> None:
        self.assert_fails(self.report(self.sample, "--out", "/nonexistent/r.html"), 1, "/nonexistent/r.html: cannot create")
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([BENCH, "report", self.sample, "--out", "-"], stdout=full, stderr=subprocess.PIPE,
                                    text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "rpma-bench: standard output: No space left on device\n")
        self.assert_fails(self.report(self.sample, "--out", "/dev/full"), 1,
                          "/dev/full: cannot write: No space left on device")


if __name__ == "__main__":
    unittest.main()
