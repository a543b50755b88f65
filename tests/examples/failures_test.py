# SPDX-License-Identifier: BSD-3-Clause
"""Output and exit status of each pair of programs. A program that failed must not exit with 0."""

import os
import signal
import unittest.mock

import support
from runner.pair import Program

SIGNATURE = b"RPMA_EXAMPLE_SIG\0"
ENGLISH, SPANISH = "Hello world!", "¡Hola Mundo!"
CLIENT_TEXT = [f"Next value: {ENGLISH}", "translating...", f"Translation: {SPANISH}"]
PERSISTENT = "RPMA_FLUSH_TYPE_PERSISTENT is supported"
VISIBILITY = "RPMA_FLUSH_TYPE_PERSISTENT is not supported, using RPMA_FLUSH_TYPE_VISIBILITY"


class TranscriptTest(support.ExamplesTest):
    def check(self, outcome: support.Outcome, server: list[str], client: list[str]) -> None:
        self.assert_success(outcome)
        self.assertEqual(server, outcome.server.stdout.splitlines())
        self.assertEqual(client, outcome.client.stdout.splitlines())

    def test_greetings(self) -> None:
        self.check(support.pair("01", "01"), ["Received a message: Hello server!"],
            ["Received a message: Hello client!"])
        self.check(support.pair("02", "02"), [], ["Read a message: Hello client!"])

    def test_texts_in_dram(self) -> None:
        flush_text = [CLIENT_TEXT[0], VISIBILITY, *CLIENT_TEXT[1:]]
        for number, client in (("03", CLIENT_TEXT), ("04", CLIENT_TEXT), ("05", flush_text)):
            with self.subTest(number=number):
                self.check(support.pair(number, number), [f"New value: {ENGLISH}"], client)

    def check_files(self, number: str, offset: int, server_operands: tuple[str, ...], client: list[str]) -> None:
        """Checks also that the texts have the documented offsets in the file."""
        with support.pmem_file() as server_path, support.pmem_file(128 * 1024) as client_path:
            outcome = support.pair(number, number, (str(server_path), *server_operands),
                (str(client_path), str(offset)))
            self.check(outcome, [f"New value: {ENGLISH}"], client)
            self.assertIn("NOT persistent memory", outcome.server.stderr)
            self.assertIn("NOT persistent memory", outcome.client.stderr)
            server_file, client_file = server_path.read_bytes(), client_path.read_bytes()
        self.assertEqual(SIGNATURE + ENGLISH.encode().ljust(1024, b"\0"), server_file[:1041])
        self.assertEqual(bytes(len(server_file) - 1041), server_file[1041:])
        record = SIGNATURE + (1).to_bytes(4, "little") + SPANISH.encode().ljust(1024, b"\0")
        self.assertEqual(bytes(offset) + record, client_file[: offset + 1045])
        self.assertEqual(bytes(len(client_file) - offset - 1045), client_file[offset + 1045 :])

    def test_texts_in_files(self) -> None:
        for number in ("03", "04"):
            for offset in (0, 1024, 60000):
                with self.subTest(number=number, offset=offset):
                    self.check_files(number, offset, (), CLIENT_TEXT)

    def test_flush_in_files(self) -> None:
        for word, line in (("on", PERSISTENT), ("off", VISIBILITY)):
            for offset in (0, 1024, 100000):
                with self.subTest(word=word, offset=offset):
                    self.check_files("05", offset, (word,), [CLIENT_TEXT[0], line, *CLIENT_TEXT[1:]])

    def test_persistent_memory_raises_no_warning(self) -> None:
        """libpmem2 treats a file as persistent memory if the environment requests this."""
        with (unittest.mock.patch.dict(os.environ, PMEM2_FORCE_GRANULARITY="CACHE_LINE"),
              support.pmem_file() as server_path, support.pmem_file() as client_path):
            outcome = support.pair("05", "05", (str(server_path), "on"), (str(client_path),))
            self.check(outcome, [f"New value: {ENGLISH}"], [CLIENT_TEXT[0], PERSISTENT, *CLIENT_TEXT[1:]])
            self.assertEqual(ENGLISH.encode(), server_path.read_bytes()[17:29])
        self.assertNotIn("WARNING", outcome.server.stderr + outcome.client.stderr)

    def test_next_run_continues_after_the_last_one(self) -> None:
        for number in ("03", "04", "05"):
            with self.subTest(number=number), support.pmem_file() as server_path, support.pmem_file() as client_path:
                operands = ((str(server_path),), (str(client_path),))
                self.assert_status(support.pair(number, number, *operands).client, 0)
                outcome = support.pair(number, number, *operands)
                self.assert_success(outcome)
                self.assertEqual([f"Old value: {ENGLISH}", f"New value: {SPANISH}"],
                    outcome.server.stdout.splitlines())
                self.assertEqual([f"Next value: {SPANISH}", f"Translation: {ENGLISH}"],
                    [line for line in outcome.client.stdout.splitlines() if ": " in line])

    def test_done_message_is_never_lost(self) -> None:
        for _ in range(50):
            self.assert_success(support.pair("08", "08", (), ("7", "1")))


class FailureTest(support.ExamplesTest):
    def test_client_that_is_never_accepted(self) -> None:
        for number in ("01", "15"):
            with self.subTest(number=number):
                result = support.on_softrdma(number, "client", "--retry=1", support.ADDR, support.free_port(support.ADDR))
                self.assert_last_line(result, 1, "start the server first")
                first, _ = result.stderr.splitlines()
                self.assertIn("yet, retrying for 1 s", first)

    def test_client_of_another_example(self) -> None:
        no_memory = "no descriptor of its memory"
        too_little = "offers 14 bytes of memory, too small for 1024 bytes at offset 0"
        for server, client, status, of_server, of_client in (
                ("01", "02", 1, "", no_memory), ("01", "04", 1, "", no_memory), ("01", "05", 1, "", no_memory),
                ("02", "04", 0, "", too_little), ("02", "05", 0, "", too_little),
                ("03", "01", 1, no_memory, "no server accepts connections"),
                ("03", "02", 1, no_memory, "no server accepts connections"),
                ("08", "02", 1, "the peer disconnected before all operations were complete", no_memory)):
            with self.subTest(server=server, client=client):
                outcome = support.pair(server, client)
                self.assert_last_line(outcome.client, 1, of_client)
                self.assert_status(outcome.server, status)
                self.assertIn(of_server, outcome.server.stderr)

    def test_server_with_more_memory_than_the_client_can_read(self) -> None:
        with support.pmem_file() as path:
            outcome = support.pair("04", "02", (str(path),))
        self.assert_failure(outcome.client, 1, "offers 65536 bytes, at most 1024 expected")
        self.assert_status(outcome.server, 1)
        self.assertIn("New value: no text found", outcome.server.stderr)

    def test_server_that_never_answers(self) -> None:
        _, port = self.start_server("04")
        result = support.on_softrdma("08", "client", "--timeout=1", support.ADDR, port, "7", "3")
        self.assert_failure(result, 1, "no completion within 1 s", "--timeout")

    def play_and_kill(self, victim: str) -> tuple[Program, Program]:
        """Runs a game without an end and kills one of the programs."""
        port = support.free_port(support.ADDR)
        programs = {"server": self.start("08", "server", port),
                    "client": self.start("08", "client", port, "7", "0", "1000", "--retry", "10")}
        support.wait_until(lambda: "Value received: 9" in programs["client"].output()[0])
        programs[victim].process.send_signal(signal.SIGKILL)
        return programs["server"], programs["client"]

    def test_killed_side_is_noticed_by_the_other(self) -> None:
        for victim, survivor in (("server", 1), ("client", 0)):
            with self.subTest(victim=victim):
                program = self.play_and_kill(victim)[survivor]
                self.assertEqual(1, program.wait(support.TIMEOUT_S))
                self.assertRegex(program.output()[1], "rpma_(recv|send) failed: |the peer disconnected")

    def test_reader_that_is_killed_leaves_the_text_untranslated(self) -> None:
        """The server of 03 dies before it accepts, so the client reads nothing."""
        server, port = self.start_server("03")
        server.process.kill()
        server.wait(support.TIMEOUT_S)
        result = support.on_softrdma("03", "client", support.ADDR, port)
        self.assert_status(result, 1)
        self.assertEqual([f"Next value: {ENGLISH}"], result.stdout.splitlines())


if __name__ == "__main__":
    support.main()
