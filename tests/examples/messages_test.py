# SPDX-License-Identifier: BSD-3-Clause
"""Output, exit status and rejected input of 07, 09, 10, 11 and log."""

import os
import struct
import unittest
import unittest.mock

import support
from runner.storage import SIGNATURE

LOG_SIZE, LOG_DATA_OFFSET = 1040, 16
ENGLISH, SPANISH = "Hello world!", "¡Hola Mundo!"


class LogFileTest(support.ExamplesTest):
    """Example 07."""

    def append(self, status: int, *words: str, path: str | None = None) -> support.Outcome:
        outcome = support.pair("07", "07", (path,) if path else (), words)
        self.assert_status(outcome.client, status)
        self.assert_status(outcome.server, 0)
        return outcome

    def test_words_are_appended_run_by_run(self) -> None:
        with support.pmem_file() as path:
            path.write_bytes(b"x" * 4096)
            self.assertEqual("used value: 16\n", self.append(0, "one", "two", path=str(path)).client.stdout)
            outcome = self.append(0, "three", path=str(path))
            self.assertEqual("used value: 24\n", outcome.client.stdout)
            self.assertEqual(["one", "two", "three"], outcome.server.stdout.splitlines())
            content = path.read_bytes()
        self.assertEqual(b"LOG\0\0\0\0\0" + struct.pack("=Q", 30) + b"one\0two\0three\0", content[:30])
        self.assertEqual(b"x" * (4096 - 30), content[30:])

    def test_log_can_be_filled_to_its_last_byte_and_no_further(self) -> None:
        """Covers a server whose memory ends with the log, and one whose memory is longer."""
        long, last = "w" * (LOG_SIZE - LOG_DATA_OFFSET - 5), "end"
        with support.pmem_file() as path:
            for operand in (None, str(path)):
                outcome = self.append(0, long, last, path=operand)
                self.assertEqual([long, last], outcome.server.stdout.splitlines())
            outcome = self.append(1, "x", path=str(path))
            self.assert_one_line(outcome.client.stderr, "log full: 'x' exceeds the remaining 0 bytes", "start the server with")
            content = path.read_bytes()
        self.assertEqual(LOG_SIZE, struct.unpack("=Q", content[8:16])[0])
        self.assertEqual(bytes(len(content) - LOG_SIZE), content[LOG_SIZE:])
        outcome = self.append(1, long, last, "", path=None)
        self.assertEqual([long, last], outcome.server.stdout.splitlines())

    @unittest.skipUnless(support.debian_library(), "Debian's librpma0 is not in the build directory")
    def test_flush_that_is_a_read_stays_in_the_log(self) -> None:
        """The released library flushes by reading 8 bytes at the start of the range, here just before the end of the log."""
        side = support.Side(support.HERE.directory, True, support.debian_library())
        words = ("w" * (LOG_SIZE - LOG_DATA_OFFSET - 5), "end")
        outcome = support.pair("07", "07", (), words, side=side)
        self.assert_status(outcome.client, 0)
        self.assertEqual(list(words), outcome.server.stdout.splitlines())

    def test_log_whose_end_is_not_in_it_is_refused(self) -> None:
        for used in (0, LOG_DATA_OFFSET - 1, LOG_SIZE + 1, 2**64 - 1):
            with self.subTest(used=used), support.pmem_file() as path:
                path.write_bytes(b"LOG\0\0\0\0\0" + struct.pack("=Q", used) + bytes(4096))
                result = support.on_softrdma("07", "server", support.ADDR, "7204", str(path))
                self.assert_last_line(result, 1, f"its end, {used}, is out of bounds")

    def test_server_of_another_example(self) -> None:
        with support.pmem_file() as path:
            outcome = support.pair("04", "07", (str(path),), ("word",))
        self.assert_failure(outcome.client, 1, "offset 17 instead of 8", "another example")


class GpspmTest(support.ExamplesTest):
    """Examples 09 and 09scch."""

    def test_server_persists_requested_data(self) -> None:
        for server, client in (("09", "09"), ("09scch", "09scch"), ("09", "09scch"), ("09scch", "09")):
            with (self.subTest(server=server, client=client), support.pmem_file() as server_path,
                  support.pmem_file() as client_path):
                outcome = support.pair(server, client, (str(server_path),), (str(client_path), "1024"))
                self.assert_success(outcome)
                self.assertEqual(
                    ["Flush request received: {offset: 0x11, length: 0x400, op_context: 0xF01D}",
                     f"New value: {ENGLISH}"], outcome.server.stdout.splitlines())
                self.assertEqual([f"Next value: {ENGLISH}", "translating...", f"Translation: {SPANISH}"],
                    outcome.client.stdout.splitlines())
                self.assertEqual(SIGNATURE + ENGLISH.encode().ljust(1024, b"\0"), server_path.read_bytes()[:1041])
                self.assertEqual(SPANISH, client_path.read_bytes()[1024 + 21 :].split(b"\0", 1)[0].decode())

    def test_translation_is_printed_on_persistent_memory_as_well(self) -> None:
        """libpmem2 treats a file as persistent memory if the environment requests this."""
        for number in ("09", "09scch"):
            with (self.subTest(number=number), support.pmem_file() as server_path, support.pmem_file() as client_path,
                  unittest.mock.patch.dict(os.environ, PMEM2_FORCE_GRANULARITY="CACHE_LINE")):
                outcome = support.pair(number, number, (str(server_path),), (str(client_path),))
                self.assert_status(outcome.client, 0)
                self.assertIn(f"Translation: {SPANISH}", outcome.client.stdout.splitlines())
                self.assertNotIn("WARNING", outcome.server.stderr + outcome.client.stderr)

    def test_message_that_is_no_request_is_refused(self) -> None:
        for server in ("09", "09scch"):
            with self.subTest(server=server):
                outcome = support.pair(server, "08", (), ("7", "3"))
                self.assert_status(outcome.client, 1)
                self.assert_status(outcome.server, 1)
                self.assertIn("sent a malformed flush request of 8 bytes", outcome.server.stderr)

    def test_missing_response(self) -> None:
        """The server of 05 describes its memory but receives no messages."""
        outcome = support.pair("05", "09", timeout_s=20)
        self.assert_status(outcome.client, 1)
        self.assertNotIn("Translation", outcome.client.stdout)


class ImmediateTest(support.ExamplesTest):
    """Examples 10 and 11."""

    def check(self, number: str, operands: tuple[str, ...], server: str, client: str) -> None:
        with self.subTest(number=number, operands=operands):
            outcome = support.pair(number, number, (), operands)
            self.assert_success(outcome)
            self.assertEqual((f"{server}\n", f"{client}\n"), (outcome.server.stdout, outcome.client.stdout))

    def test_sent(self) -> None:
        for imm in ("0", "1234", "4294967295"):
            self.check("10", (imm,), f"Received immediate data '{imm}'", f"Sending immediate data '{imm}'")
            for word in ("w", "x" * 1023):
                self.check("10", (imm, word), f"Received value '{word}' with immediate data '{imm}'",
                    f"Sending value '{word}' with immediate data '{imm}'")

    def test_written(self) -> None:
        for imm in ("0", "1234", "4294967295"):
            self.check("11", (imm,), f"The value '{imm}' was written together with immediate data '{imm}'",
                f"Writing value '{imm}' with immediate data '{imm}'")

    def test_client_of_another_example(self) -> None:
        for server, client, operands, words in (
                ("10", "08", ("7", "3"), "sent no immediate data (does it run another example?)"),
                ("10", "11", ("1",), "the peer disconnected before all operations were complete"),
                ("11", "10", ("1",), "sent no immediate data (does it run another example?)"),
                ("11", "10", ("1", "word"), "rpma_conn_req_recv failed: local length error")):
            with self.subTest(server=server, client=client):
                outcome = support.pair(server, client, (), operands, timeout_s=20)
                self.assertEqual((1, ""), (outcome.server.status, outcome.server.stdout))
                self.assertIn(words, outcome.server.stderr)

    def test_server_with_too_little_memory(self) -> None:
        outcome = support.pair("02", "11", (), ("1",))
        self.assert_status(outcome.client, 1)
        self.assertIn("offers 14 bytes of memory, too small for 1024", outcome.client.stderr)


class LogTest(support.ExamplesTest):
    def check(self, library: str | None) -> None:
        environment = support.Side(support.BUILD, True, library).environment()
        result = support.execute([support.LOG], env=environment)
        self.assert_status(result, 0)
        by_default = result.stderr.splitlines()
        to_function = [line for line in result.stdout.splitlines() if line.startswith("custom: error: ")]
        self.assertGreaterEqual(len(by_default), 2)
        self.assertEqual(len(by_default), len(to_function))
        for line in by_default:
            self.assertRegex(line, r"^[A-Z][a-z]{2} .\d \d\d:\d\d:\d\d\.\d{6} \[\d+\] \*ERROR\* \S+: *\d+: \w+: .+$")

    def test_same_messages_go_to_stderr_and_to_the_function(self) -> None:
        self.check(None)

    @unittest.skipUnless(support.debian_library(), "Debian's librpma0 is not in the build directory")
    def test_programs_of_the_released_library(self) -> None:
        self.check(support.debian_library())


if __name__ == "__main__":
    support.main()
