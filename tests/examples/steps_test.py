# SPDX-License-Identifier: BSD-3-Clause
"""mirror-steps: each SNIA action, its packets as decoded by tshark, and the repair of a page."""

import pathlib
import re
import shutil
import tempfile

import support


class StepsTest(support.ExamplesTest):
    def test_each_step_with_its_packets(self) -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as place, tempfile.TemporaryDirectory() as other:
            trace = pathlib.Path(other) / "trace.pcap"
            result = support.execute([str(support.RUNNER), "mirror-steps", "--build", str(support.BUILD), "--pmem", place,
                                      "--trace", str(trace)])
            self.assert_status(result, 0)
            self.assertEqual([], list(pathlib.Path(place).iterdir()))
            self.assertEqual(trace.read_bytes()[:4], b"\n\r\r\n")
        self.assertEqual(re.findall(r"(?m)^\d\. (\w+):", result.stdout),
                         ["MAP", "OPTIMIZED_FLUSH", "atomic_write", "OPTIMIZED_FLUSH_AND_VERIFY", "GET_ERROR_INFO", "repair", "UNMAP"])
        if shutil.which("tshark") is None:
            self.assertIn("tshark is not installed", result.stdout)
            return
        # Three ranges: three writes and one flush to each of two targets.
        self.assertRegex(result.stdout, r"OPTIMIZED_FLUSH: .*\n +requests to both targets: 2 FLUSH, 6 WRITE\n")
        self.assertRegex(result.stdout, r"atomic_write: .*\n +requests to both targets: 2 ATOMIC WRITE, 2 FLUSH\n")
        self.assertRegex(result.stdout, r"OPTIMIZED_FLUSH_AND_VERIFY: .*\n +requests to both targets: 2 FLUSH, 2 READ, 2 WRITE\n")
        self.assertRegex(result.stdout, r"repair: .*\n +requests to both targets: 1 READ\n")

    def test_memory_that_is_not_a_directory(self) -> None:
        for name in ("mirror-steps", "mirror-failover"):
            result = support.execute([str(support.RUNNER), name, "--build", str(support.BUILD), "--pmem", "/dev/null"])
            self.assert_failure(result, 2, "not a directory")


if __name__ == "__main__":
    support.main()
