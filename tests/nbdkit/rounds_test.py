#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of process faults under load."""

import time
import unittest

from load import LoadTest
from support import stop


class Rounds(LoadTest):
    faults = ("kill writer", "stop writer", "kill target", "kill all")

    def test_no_flushed_write_is_lost_with_the_operator(self):
        self.no_flushed_write_is_lost("arbiter operator", [self.target(), self.target()])

    def test_no_flushed_write_is_lost_with_etcd(self):
        self.no_flushed_write_is_lost(self.etcd(), [self.target(), self.target()])

    def lose_target(self, server, writers):
        target = self.rng.choice(self.targets)
        target.kill()
        time.sleep(self.rng.uniform(0.02, 0.2))
        target.start()

    def strike(self, fault, server, here):
        if fault == "stop writer":
            stop(server.process)
        else:
            server.kill()
        if fault == "kill all":
            for target in self.targets:
                target.kill()
                target.start()

    def heal(self, fault, old, there):
        if fault == "stop writer":
            old.go_on()


if __name__ == "__main__":
    unittest.main()
