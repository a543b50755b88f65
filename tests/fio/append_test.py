# SPDX-License-Identifier: BSD-3-Clause
"""The engines of the append-only file: with each other, and with a peer that knows only the bytes of their protocol."""

import contextlib
import pathlib
import struct
import tempfile
import unittest
from collections.abc import Iterator

from support import (
    ADDRESS, APPEND_SIZE, COUNT, DEEP, EXTERNAL, MODES, SERVER, SHORT, SIZE, FioTest, Job, Run, free_port, is_listening,
    peer, result_of, run)

BLOCK = 4096
PATTERN = bytes.fromhex("c0ffee42")
END_S = 20
# The persistence method differs: the server's CPU, or flushes of the client with direct write to PMem.
DIRECT = {"sw": 0, "hw": 1}


@contextlib.contextmanager
def workspace() -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory(prefix="librpma-fio-append-", dir="/var/tmp") as name:
        file = pathlib.Path(name) / "workspace"
        file.write_bytes(bytes(APPEND_SIZE))
        yield file


def pointer_of(file: pathlib.Path) -> int:
    return struct.unpack("<Q", file.read_bytes()[-8:])[0]


class AppendTest(FioTest):
    def run_append(self, mode: str, client: dict | None = None, server: dict | None = None) -> Run:
        return run("aof", client_values={"mode": mode} | (client or {}),
                   server_values={"mode": mode, "size": APPEND_SIZE} | (server or {}))


class Pairs(AppendTest):
    def test_ways_of_appending(self) -> None:
        deepest = DEEP | {"iodepth": 7, "iodepth_batch_submit": 3, "iodepth_batch_complete_min": 2}
        for mode in MODES:
            for values in ({}, DEEP, deepest, {"busy_wait_polling": 1}):
                with self.subTest(mode=mode, values=values):
                    done = self.run_append(mode, values, {"busy_wait_polling": values.get("busy_wait_polling", 0)})
                    self.assert_succeeds(done)
                    self.assertEqual(COUNT, done.client_report["write"]["total_ios"])

    def test_threads(self) -> None:
        for mode in MODES:
            with self.subTest(mode=mode):
                done = self.run_append(mode, DEEP | {"numjobs": 3}, {"numjobs": 3})
                self.assert_succeeds(done)
                self.assertEqual(3 * COUNT, done.client_report["write"]["total_ios"])

    def test_is_read_back(self) -> None:
        verify = {"verify": "crc32c", "verify_fatal": 1, "verify_state_save": 0}
        for mode in MODES:
            for values in (SHORT, DEEP, DEEP | {"verify_backlog": 8, "number_ios": None}):
                with self.subTest(mode=mode, values=values):
                    done = self.run_append(mode, values | verify)
                    self.assert_succeeds(done)
                    self.assertEqual(COUNT, done.client_report["read"]["total_ios"])

    def test_data_and_pointer_are_in_the_servers_file(self) -> None:
        pattern = {"buffer_pattern": "0x" + PATTERN.hex(), "number_ios": None}
        for mode in MODES:
            for values in ({}, DEEP):
                with self.subTest(mode=mode, values=values), workspace() as file:
                    done = self.run_append(mode, values | pattern,
                                           {"filename": file, "create_on_open": None, "direct_write_to_pmem": DIRECT[mode]})
                    self.assert_succeeds(done)
                    self.assertEqual(PATTERN * (SIZE // len(PATTERN)), file.read_bytes()[:SIZE])
                    self.assertEqual(SIZE, pointer_of(file))

    def test_a_full_file_is_overwritten_except_for_the_pointer(self) -> None:
        """Without its own size, the client fills the server's file except for the pointer: 64 blocks and 4088 bytes."""
        count = COUNT + 7
        for mode in MODES:
            with self.subTest(mode=mode), workspace() as file:
                done = self.run_append(
                    mode, {"size": None, "number_ios": count, "io_size": "1m", "buffer_pattern": "0x" + PATTERN.hex()},
                    {"filename": file, "create_on_open": None, "direct_write_to_pmem": DIRECT[mode]})
                self.assert_succeeds(done)
                self.assertEqual(count, done.client_report["write"]["total_ios"])
                self.assertEqual((count - COUNT) * BLOCK, pointer_of(file))


class Independent(AppendTest):
    """Two independent encoders, written without knowledge of each other, agree on the format."""

    def test_its_client_appends_to_the_server(self) -> None:
        for mode in MODES:
            for count in (1, COUNT):
                with self.subTest(mode=mode, count=count), workspace() as file:
                    port = free_port(ADDRESS)
                    values = SERVER | {"serverip": ADDRESS, "port": port, "mode": mode, "size": APPEND_SIZE,
                                       "filename": file, "create_on_open": None, "direct_write_to_pmem": DIRECT[mode]}
                    with Job(EXTERNAL, "aof", "server", values, file.parent) as server:
                        server.wait_until_listening()
                        with peer("append_peer.py", "client", mode, ADDRESS, port, count) as client:
                            self.assertEqual(0, result_of(client, END_S).status)
                        self.assertEqual(0, server.result(END_S).status)
                    data = b"".join(bytes([number]) * BLOCK for number in range(count))
                    self.assertEqual(data, file.read_bytes()[:len(data)])
                    self.assertEqual(len(data), pointer_of(file))

    def test_the_client_appends_to_its_server(self) -> None:
        for mode in MODES:
            for values in ({}, SHORT | {"sync": None, "iodepth": 8, "iodepth_batch_submit": 1}):
                with self.subTest(mode=mode, values=values), workspace() as file:
                    port = free_port(ADDRESS)
                    client = SHORT | values | {"serverip": ADDRESS, "port": port, "mode": mode,
                                               "buffer_pattern": "0x" + PATTERN.hex()}
                    with peer("append_peer.py", "server", mode, ADDRESS, port, file) as server:
                        while server.process.poll() is None and not is_listening(int(port)):
                            pass
                        with Job(EXTERNAL, "aof", "client", client, file.parent) as job:
                            result = job.result(END_S)
                        self.assertEqual(0, result.status, result)
                        self.assertEqual(0, result_of(server, END_S).status)
                    self.assertEqual(PATTERN * (SIZE // len(PATTERN)), file.read_bytes()[:SIZE])
                    self.assertEqual(SIZE, pointer_of(file))


if __name__ == "__main__":
    unittest.main(verbosity=2)
