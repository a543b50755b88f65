# SPDX-License-Identifier: BSD-3-Clause
"""The engines detect peers that violate the protocol."""

import pathlib
import struct
import tempfile
import unittest

from support import (
    ADDRESS, EXTERNAL, SERVER, SHORT, SIZE, FioTest, Job, free_port, is_listening, peer, result_of)

END_S = 20


def message(*fields: int) -> str:
    """Encodes fields of the schema, each a fixed64: one byte with its number and wire type, then 8 bytes."""
    return b"".join(bytes([(number << 3) + 1]) + struct.pack("<Q", value) for number, value in enumerate(fields, 1)).hex()


def request(offset: int, length: int) -> str:
    return message(offset, length, 1)


class InvalidPeers(FioTest):
    def check_server(self, message: str, *words: str, method: str = "gpspm") -> None:
        with self.subTest(message=message), tempfile.TemporaryDirectory() as directory:
            port = free_port(ADDRESS)
            values = SERVER | {"serverip": ADDRESS, "port": port}
            with Job(EXTERNAL, method, "server", values, pathlib.Path(directory)) as server:
                server.wait_until_listening()
                with peer("invalid_peer.py", "client", ADDRESS, port, message) as invalid_peer:
                    self.assertEqual(0, result_of(invalid_peer, END_S).status)
                result = server.result(END_S)
        self.assertEqual(1, result.status, result)
        self.assert_one_line(result.stderr, f"librpma_{method}_server", *words)

    def test_a_request_beyond_the_workspace_ends_the_server(self) -> None:
        for offset, length in ((0, SIZE + 1), (SIZE, 1), (SIZE + 1, 0), (1 << 63, 1 << 63),
                               (4096, (1 << 64) - 4096)):
            self.check_server(request(offset, length), f"{length} bytes at offset {offset}", str(SIZE))

    def test_a_message_that_is_no_request_ends_the_server(self) -> None:
        for message in ("ff" * 512, request(1, 2)[:-2], "00"):
            self.check_server(message, f"{len(message) // 2} bytes", "malformed flush request")

    def test_an_append_beyond_the_file_ends_the_server(self) -> None:
        capacity = SIZE - 8
        for offset, length in ((0, capacity + 1), (capacity, 1), (capacity + 1, 0), (1 << 63, 1 << 63), (4096, (1 << 64) - 4096)):
            self.check_server(message(offset, length, capacity, 1), f"{length} bytes at offset {offset}", str(capacity), method="aof")

    def test_a_pointer_that_is_not_at_the_end_ends_the_server(self) -> None:
        for pointer in (0, SIZE - 16, SIZE - 7, SIZE, 1 << 63, (1 << 64) - 8):
            self.check_server(message(0, 8, pointer, 1), f"the pointer at offset {pointer}", str(SIZE - 8), method="aof")

    def test_a_message_that_is_no_append_ends_the_server(self) -> None:
        for data in ("ff" * 512, message(0, 8, SIZE - 8), message(0, 8, SIZE - 8, 1)[:-2]):
            self.check_server(data, f"{len(data) // 2} bytes", "malformed append request", method="aof")

    def check_client(self, method: str, private_data: str, response: str, *words: str) -> None:
        with self.subTest(method=method, private_data=private_data, response=response), \
                tempfile.TemporaryDirectory() as directory:
            port = free_port(ADDRESS)
            with peer("invalid_peer.py", "server", ADDRESS, port, private_data, response) as invalid_peer:
                while invalid_peer.process.poll() is None and not is_listening(int(port)):
                    pass
                values = SHORT | {"serverip": ADDRESS, "port": port, "size": "4k", "number_ios": 1}
                with Job(EXTERNAL, method, "client", values, pathlib.Path(directory)) as client:
                    result = client.result(END_S)
                self.assertEqual(0, result_of(invalid_peer, END_S).status)
        self.assertEqual(1, result.status, result)
        self.assert_one_line(result.stderr, f"librpma_{method}_client", *words)

    def test_a_server_that_describes_no_workspace_is_left(self) -> None:
        for data in ("", "0000", "00000019" + "00" * 24, "00000000" + "00" * 24, "00000015" + "00" * 24):
            for method in ("apm", "gpspm", "aof"):
                self.check_client(method, data, "", "not a librpma server of fio")

    def test_unexpected_response_is_rejected(self) -> None:
        for response in ("09" + "ff" * 8, "ff" * 9, "00"):
            for method in ("gpspm", "aof"):
                self.check_client(method, "{region}", response, "unexpected response")


if __name__ == "__main__":
    unittest.main(verbosity=2)
