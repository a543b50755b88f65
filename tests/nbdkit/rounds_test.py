#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of process faults under load."""

import time
import unittest

from load import LIMIT_S, ROUNDS, SEED, LoadTest
from support import stop


class Rounds(LoadTest):
    def test_no_flushed_write_is_lost_with_the_operator(self):
        self.no_flushed_write_is_lost("arbiter operator")

    def test_no_flushed_write_is_lost_with_etcd(self):
        self.no_flushed_write_is_lost(self.etcd())

    def no_flushed_write_is_lost(self, arbiter):
        print(f"seed {SEED}, {ROUNDS} rounds, {arbiter}")
        targets = [self.target(), self.target()]
        places = [self.host(copy, *targets, more=arbiter) for copy in (0, 5)]
        self.done("create", places[0])
        here = 0
        server = self.promote(places[here])
        faults = ["kill writer", "stop writer", "kill target", "kill all"]
        written = 0
        for number in range(ROUNDS):
            fault = faults[number] if number < len(faults) else self.rng.choice(faults)
            writers = self.load(server)
            time.sleep(self.rng.uniform(0.02, 0.2))
            if fault == "kill target":
                target = self.rng.choice(targets)
                before = server.log().count(" is in sync")
                target.kill()
                time.sleep(self.rng.uniform(0.02, 0.2))
                target.start()
                self.until(lambda: server.log().count(" is in sync") > before, server.log)
                self.finish(writers)
            else:
                old, here = server, 1 - here
                if fault == "stop writer":
                    stop(old.process)
                else:
                    old.kill()
                if fault == "kill all":
                    for target in targets:
                        target.kill()
                        target.start()
                server = self.promote(places[here])
                if fault == "stop writer":
                    old.go_on()
                    old.process.wait(LIMIT_S)
                    self.assertIn("disk failed", old.log())
                self.finish(writers)
            self.check(server, writers, number, fault)
            written += sum(writer.count for writer in writers)
        self.assertGreater(written, 0)
        print(f"{written} writes acknowledged")


if __name__ == "__main__":
    unittest.main()
