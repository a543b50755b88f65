# SPDX-License-Identifier: BSD-3-Clause
"""fio reads written data back, and the server's file contains it."""

import contextlib
import pathlib
import tempfile
import unittest
from collections.abc import Iterator

from support import COUNT, DEEP, EXTERNAL, IN_TREE, METHODS, SIZE, FioTest, run

PATTERN = bytes.fromhex("c0ffee42")
PERSISTENT = {"apm": {"direct_write_to_pmem": 1}, "gpspm": {"direct_write_to_pmem": 0}}
VERIFY = {"verify": "crc32c", "verify_fatal": 1, "verify_state_save": 0}


@contextlib.contextmanager
def directory() -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory(prefix="librpma-fio-data-", dir="/var/tmp") as name:
        yield pathlib.Path(name)


class Data(FioTest):
    def test_is_read_back(self) -> None:
        """fio's own GPSPM client cannot read, so it cannot verify either."""
        for method in METHODS:
            for server in (EXTERNAL, IN_TREE):
                for values in ({}, DEEP, DEEP | {"rw": "randwrite", "verify_backlog": 8, "number_ios": None}):
                    with self.subTest(method=method, server=server.engines, values=values):
                        done = run(method, server, EXTERNAL, values | VERIFY)
                        self.assert_succeeds(done)
                        self.assertEqual(COUNT, done.client_report["read"]["total_ios"])

    def test_missing_commands_are_reported(self) -> None:
        """Verification is effective: data that was never written does not match the pattern."""
        done = run("apm", client_values=VERIFY | {"rw": "read"})
        self.assertEqual(1, done.client.status)
        self.assertIn("verify", done.client.stderr)

    def test_is_in_the_servers_file(self) -> None:
        pattern = {"buffer_pattern": "0x" + PATTERN.hex(), "number_ios": None}
        for method in METHODS:
            for values in ({}, DEEP):
                with self.subTest(method=method, values=values), directory() as path:
                    file = path / "workspace"
                    done = run(method, client_values=values | pattern,
                               server_values={"filename": file, "create_on_open": None, **PERSISTENT[method]})
                    self.assert_succeeds(done)
                    self.assertEqual(PATTERN * (SIZE // len(PATTERN)), file.read_bytes())
                    self.assertIn("not persistent memory", done.server.stderr)

    def test_each_thread_has_its_file(self) -> None:
        with directory() as path:
            done = run("gpspm", client_values={"numjobs": 2, "buffer_pattern": "0x" + PATTERN.hex(), "number_ios": None},
                       server_values={"numjobs": 2, "filename": None, "directory": path, "filename_format": "$jobnum",
                                      "create_on_open": None})
            self.assert_succeeds(done)
            for name in "01":
                self.assertEqual(PATTERN * (SIZE // len(PATTERN)), (path / name).read_bytes(), name)

    def test_no_file_called_malloc_is_left(self) -> None:
        before = pathlib.Path("malloc").exists()
        self.assert_succeeds(run("apm", server_values={"create_on_open": None}))
        self.assertEqual(before, pathlib.Path("malloc").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
