# SPDX-License-Identifier: BSD-3-Clause
"""Each engine works with its counterpart, both fio's own and the one under test, with each method of I/O."""

import concurrent.futures
import unittest

from support import COUNT, DEEP, EXTERNAL, IN_TREE, METHODS, SIZE, FioTest, run

PAIRS = {"both outside": (EXTERNAL, EXTERNAL), "server of fio's own": (IN_TREE, EXTERNAL),
         "client of fio's own": (EXTERNAL, IN_TREE)}


class Pairs(FioTest):
    def check(self, kind: str = "write", methods: tuple[str, ...] = METHODS, client: dict | None = None,
              server: dict | None = None, jobs: int = 1, pairs: tuple[str, ...] = tuple(PAIRS)) -> None:
        cases = [(method, name) for method in methods for name in pairs]
        # Two pairs run at once, because most of the time is spent on starting and ending.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = pool.map(lambda case: run(case[0], *PAIRS[case[1]], client, server), cases)
        for (method, pair), done in zip(cases, runs):
            with self.subTest(method=method, pair=pair):
                self.assert_succeeds(done)
                self.assertEqual(COUNT * jobs, done.client_report[kind]["total_ios"])

    def test_one_at_a_time(self) -> None:
        self.check()

    def test_many_at_once(self) -> None:
        self.check(client=DEEP)

    def test_at_random(self) -> None:
        self.check(client=DEEP | {"rw": "randwrite", "norandommap": True})

    def test_threads(self) -> None:
        self.check(client=DEEP | {"numjobs": 3}, server={"numjobs": 3}, jobs=3)

    def test_busy_waiting(self) -> None:
        self.check(client={"busy_wait_polling": 1}, server={"busy_wait_polling": 1})

    def test_blocks_of_many_sizes(self) -> None:
        self.check(client=DEEP | {
            "blocksize": None, "bsrange": "1-64k", "bs_unaligned": True, "rw": "randwrite", "norandommap": True,
            "io_size": "64m"})

    def test_reading(self) -> None:
        self.check("read", ("apm",), DEEP | {"rw": "randread", "norandommap": True})
        self.check("read", ("apm",), {"rw": "read"})

    def test_mixed(self) -> None:
        for server_fio, client_fio in PAIRS.values():
            done = run("apm", server_fio, client_fio, DEEP | {"rw": "randrw", "rwmixread": 70, "norandommap": True})
            self.assert_succeeds(done)
            counts = [done.client_report[kind]["total_ios"] for kind in ("read", "write")]
            self.assertEqual(COUNT, sum(counts))
            self.assertTrue(all(counts), counts)

    def test_sequential_writing_goes_round(self) -> None:
        self.check(client=DEEP | {"size": "96k", "io_size": "1m"}, server={"size": "96k"})

    def test_a_workspace_that_no_number_of_blocks_fills(self) -> None:
        """At the end of the workspace batches are shorter, so there are more flushes than the queue can contain. Each waits for a free entry."""
        for method in METHODS:
            for pair in ("both outside", "server of fio's own"):
                with self.subTest(method=method, pair=pair):
                    done = run(method, *PAIRS[pair], DEEP | {"size": None, "number_ios": None, "time_based": True, "runtime": 1},
                               {"size": SIZE - 8})
                    self.assert_succeeds(done)
                    self.assertGreater(done.client_report["write"]["total_ios"], COUNT)

    def test_a_batch_that_does_not_divide_the_depth(self) -> None:
        """fio's own client posts more flushes than its queue can contain, and fails."""
        self.check(client=DEEP | {"iodepth": 7, "iodepth_batch_submit": 3, "iodepth_batch_complete_min": 2},
                   pairs=("both outside", "server of fio's own"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
