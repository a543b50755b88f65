#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Import of results of the old benchmarking framework."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, os.environ["RPMA_BENCH_MODULES"])
from rpma_bench import old_framework  # noqa: E402
from rpma_bench.common import Failure  # noqa: E402

OLD = pathlib.Path(__file__).resolve().parent / "old_framework"
ROW = {"threads": 1, "iodepth": 1, "bs": 4096, "ops": 100, "lat_avg": 2.5, "iops_avg": 1000, "bw_avg": 8}
CSV = "threads,iodepth,bs,lat_avg\n1,1,4096,2.5\n"


class Import(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="rpma-bench-import-")))

    def file(self, name, content):
        path = self.place / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def error_of(self, path, rows_are=""):
        with self.assertRaises(Failure) as caught:
            old_framework.load_any(path, rows_are)
        return str(caught.exception)

    def bench(self, *series, direct_write=False):
        """Writes a bench.json of these series, each with its rows."""
        for i, (_, rows) in enumerate(series):
            if rows is not None:
                self.file(f"benchmark_{i}.json", rows)
        benchmarks = {str(i): one for i, (one, _) in enumerate(series)}
        path = self.file("bench.json", {"requirements": {"0": {"direct_write_to_pmem": direct_write, "benchmarks": benchmarks}}})
        errors = []
        return old_framework.load_any(path, errors=errors), errors

    def one(self, result, workload, api, size):
        return next(p for p in result["points"] if (p["workload"], p["api"], p["parameters"]["block_size"]) == (workload, api, size))

    def test_bench_file_brings_its_rows_with_their_meaning(self):
        result = old_framework.load_any(OLD / "bench.json")
        self.assertEqual(len(result["points"]), 3 + 3 + 2 + 2)
        self.assertFalse(result["complete"])  # benchmark_3.json was never written
        read = self.one(result, "read", "librpma", 4096)
        run = read["repeats"][0]
        self.assertAlmostEqual(run["latency_ns"]["mean"], 3500)
        self.assertAlmostEqual(run["bytes_per_s"], 9.2e9 / 8)
        self.assertEqual((run["operations"], run["ops_per_s"]), (1500000, 280000))
        self.assertEqual(run["latency_ns"]["percentiles"][2][0], 99.99)
        self.assertEqual((read["parameters"]["target"], read["parameters"]["flush"]), ("dram", "none"))
        self.assertIsNone(self.one(result, "read", "verbs", 256)["repeats"][0]["bytes_per_s"])
        gpspm = self.one(result, "gpspm", "librpma", 4096)["parameters"]
        self.assertEqual((gpspm["polling"], gpspm["flush"]), ("event", "persistent"))
        mix = self.one(result, "mix", "librpma", 4096)
        self.assertEqual((mix["parameters"]["read_percent"], mix["parameters"]["access"]), (70, "random"))
        self.assertAlmostEqual(mix["repeats"][0]["latency_ns"]["mean"], 6000)
        self.assertAlmostEqual(mix["repeats"][0]["writes"]["latency_ns"]["mean"], 8000)
        self.assertNotIn("hunter2", json.dumps(result))

    def test_names_of_the_scripts(self):
        for name, expected in {
            "rpma_fio_apm_busy-wait-polling_write_lat_node1_pmem": ("write_flush", "busy", "persistent", "pmem", "sequential"),
            "rpma_fio_aof_sw_no-busy-wait-polling_write_bw-bs_node0_pmem": ("aof", "event", "persistent", "pmem", "sequential"),
            "rpma_fio_aof_sw_busy-wait-polling_write_bw-cpu-mt_node0_pmem": ("aof", "busy", "persistent", "pmem", "sequential"),
            "rpma_fio_aof_hw_busy-wait-polling_write_lat-cpu_node0_dax1.0": ("log_append", "busy", "persistent", "pmem", "sequential"),
            "rpma_fio_gpspm_no-busy-wait-polling_randwrite_bw-dp-exp_th1_pmem0": ("gpspm", "event", "persistent", "pmem", "random"),
            "rpma_fio_gpspm_no-busy-wait_write_bw-dp-lin_dev_dax0.0": ("gpspm", "event", "persistent", "pmem", "sequential"),
            "rpma_fio_apm_busy-wait-polling_randread_bw-th_node1_dram": ("read", "busy", "none", "dram", "random"),
            "rpma_fio_apm_busy-wait-polling_write_lat_node1_dram__aof on gpspm__": ("write_flush", "busy", "visibility", "dram", "sequential"),
            "ib_read_lat": ("read", "busy", "none", "dram", "sequential"),
            "ib_read_bw-bs_th1": ("read", "busy", "none", "dram", "sequential"),
        }.items():
            with self.subTest(name=name):
                result = old_framework.load_any(self.file(f"{name}-21-06-01-120000.csv", CSV))
                point, p = result["points"][0], result["points"][0]["parameters"]
                self.assertEqual((point["workload"], p["polling"], p["flush"], p["target"], p["access"]), expected)
                self.assertEqual(point["api"], "verbs" if name.startswith("ib") else "librpma")

    def test_half_of_a_mix_is_no_whole(self):
        for words, half in ("rw_lat_node1_dram_read", "reads"), ("randrw_write_lat_node1_dram", "writes"), ("write_rw_dram", "writes"):
            result = old_framework.load_any(self.file(f"rpma_fio_apm_busy-wait-polling_{words}-21-06-01-120000.csv", CSV))
            self.assertEqual(result["points"][0]["workload"], "mix")
            run = result["points"][0]["repeats"][0]
            self.assertEqual(run[half]["latency_ns"]["mean"], 2500)
            self.assertIsNone(run["latency_ns"].get("mean"))
        self.assertIn("row of a mix without its half", self.error_of(self.file("rpma_fio_apm_rw_lat_dram.csv", CSV)))
        self.assertIn("both halves", self.error_of(self.file("rpma_fio_apm_rw_read_lat_write_dram.csv", CSV)))

    def test_name_with_a_word_left_over_is_refused(self):
        for name, word in ("rpma_fio_apm_odp_write_lat_dram", "odp"), ("rpma_fio_apm_write_lat_ssd0", "ssd0"), ("tcp_read", "tcp"):
            error = self.error_of(self.file(f"{name}.csv", CSV))
            self.assertIn(f'unknown word "{word}"', error)
            self.assertIn("--rows-are", error)
        self.assertIn('"gpspm" contradicts "write_flush"', self.error_of(self.file("apm_gpspm_write.csv", CSV)))
        self.assertIn("gpspm does not read", self.error_of(self.file("gpspm_read.csv", CSV)))

    def test_rows_are_overrides_the_name(self):
        point = old_framework.load_any(OLD / "benchmark_0.json", "ib,randread")["points"][0]
        self.assertEqual((point["api"], point["parameters"]["access"]), ("verbs", "random"))
        self.assertIn('--rows-are: unknown word "fly"', self.error_of(OLD / "benchmark_0.json", "apm,fly"))
        self.assertIn("specify it with --rows-are", self.error_of(OLD / "benchmark_0.json"))

    def test_series_of_every_form(self):
        fio = {"tool": "fio", "tool_mode": "apm", "rw": "write", "filetype": "/dev/dax0.0"}
        result, errors = self.bench(
            (fio | {"rw": "rw"}, {"read": [ROW, ROW], "write": [ROW, ROW]}),
            ({"tool": "ib_read.sh", "tool_mode": "lat", "rw": "read"}, [ROW]),
            ({"tool": "rpma_fio_bench.sh", "tool_mode": "aof_sw", "rw": "write", "filetype": "pmem", "busy_wait_polling": False}, [ROW]),
            (fio, {"4096": ROW, "8192": ROW | {"bs": 8192}}),
            (fio, {"rows": [ROW]}), direct_write=True)
        self.assertEqual(errors, [])
        self.assertEqual([(p["workload"], p["api"]) for p in result["points"]],
                         [("mix", "librpma")] * 2 + [("read", "verbs"), ("aof", "librpma")] + [("write_flush", "librpma")] * 3)
        self.assertEqual(result["points"][3]["parameters"]["polling"], "event")
        self.assertEqual({p["parameters"]["target"] for p in result["points"][4:]}, {"pmem"})
        self.assertEqual(result["points"][0]["repeats"][0]["ops_per_s"], 2000)

    def test_bad_series_is_named_and_the_others_are_read(self):
        fio = {"tool": "fio", "tool_mode": "apm", "rw": "write", "filetype": "malloc"}
        bad = [(fio | {"rw": "fly"}, [ROW]), (fio, [ROW | {"lat_avg": "fast"}]), (fio, '[{"bs": 64, "lat_avg": 1e400}]'),
               (fio, {"read": [ROW], "write": []}), (fio, "[" * 100000), ([], [ROW]), (fio, '[{"bs": NaN}]'), (fio, [ROW | {"bs": 1e300}]),
               (fio | {"filetype": "tape"}, [ROW]), ({"tool": "fio"}, [ROW])]
        result, errors = self.bench((fio, [ROW]), *bad, (fio | {"rw": "read"}, [ROW]))
        self.assertEqual([p["workload"] for p in result["points"]], ["write_flush", "read"])
        self.assertEqual(len(errors), len(bad))
        for error in errors:
            self.assertRegex(error, r"benchmark_\d+\.json|benchmarks\.\d+")

    def test_unreadable_files_are_named(self):
        for name, text, error in (
            ("read.json", '[{"lat_avg": 1}]', ': [0]: "bs" is missing'),
            ("read.json", '[{"bs": 64, "lat_avg": "fast"}]', ': [0]: "lat_avg" is not a number from 0 up to 1e18'),
            ("read.json", '[{"bs": 64, "lat_avg": -1}]', ': [0]: "lat_avg" is not a number from 0 up to 1e18'),
            ("read.json", '[{"bs": 1e400}]', ': [0]: "bs" is not a number from 0 up to 1e18'),
            ("read.json", '[{"bs": 64}, 3]', ": [1]: is neither a row nor a pair of rows"),
            ("read.json", '[{"bs": 64}', ": is neither JSON nor CSV, or was cut short"),
            ("read.json", "[]", ": contains no rows"),
            ("read.csv", "threads,bs\n1,64\n1\n", ":3: number of fields differs from the header"),
            ("read.csv", "a,b\n1,2\n", ": is not a result file of rpma-bench nor one with the old framework's rows"),
            ("bench.json", '{"requirements": {"0": 7}}', ": requirements.0: is not an object"),
            ("bench.json", '{"requirements": {}}', ": benchmark_<id>.json with its rows not found beside it"),
            ("r.json", '{"requirements"', ":1: ends in the middle: the file was cut short"),
            ("r.json", "", ":1: ends in the middle: the file was cut short"),
        ):
            with self.subTest(text=text):
                path = self.file(name, text)
                self.assertEqual(self.error_of(path), f"{path}{error}")


if __name__ == "__main__":
    unittest.main()
