# SPDX-License-Identifier: BSD-3-Clause
"""mirror-failover: a failover without loss of acknowledged data, and a failover without flushes, which loses data."""

import os
import pathlib
import sys
import tempfile

import support


class FailoverTest(support.ExamplesTest):
    def run_example(self, *arguments: str) -> object:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
            result = support.execute([str(support.RUNNER), "mirror-failover", "--build", str(support.BUILD), "--pmem", place,
                                      *arguments])
            self.assertEqual([], list(pathlib.Path(place).iterdir()))
        return result

    def test_nothing_acknowledged_is_missing(self) -> None:
        result = self.run_example()
        self.assert_status(result, 0)
        self.assertRegex(result.stdout, r"(?s)target B +is KILLED.*B was evicted.*the writer is KILLED.*promote opens.*"
                                        r"in sync: 1, 2 and 3.*\n *\d+\.\d\d s  machine 2 counts: (\d+) puts were "
                                        r"acknowledged, \d+ exist, 0 missing\n.*\nok: nothing")

    def test_without_flushes_something_is_missing(self) -> None:
        result = self.run_example("--without-flush")
        self.assert_status(result, 1)
        self.assertRegex(result.stdout, r"acknowledged, 0 exist, (\d+) missing\n.*\n.*\nFAILED: acknowledged puts are missing")

    def test_a_disk_without_qemu_names_the_package(self) -> None:
        result = support.execute([sys.executable, str(support.RUNNER), "disk-failover", "--build", str(support.BUILD)],
                                 env=os.environ | {"PATH": "/nonexistent"})
        self.assert_failure(result, 77, "install ", "nbdkit")


if __name__ == "__main__":
    support.main()
