# SPDX-License-Identifier: BSD-3-Clause
"""Output and exit status of each pair of programs. A program that failed must not exit with 0."""

import contextlib
import os
import signal
import unittest.mock
from collections.abc import Iterator

import support
from runner.pair import Program

SIGNATURE = b"RPMA_EXAMPLE_SIG\0"
ENGLISH, SPANISH = "Hello world!", "¡Hola Mundo!"
CLIENT_TEXT = [f"Next value: {ENGLISH}", "translating...", f"Translation: {SPANISH}"]
PERSISTENT = "RPMA_FLUSH_TYPE_PERSISTENT is supported"
VISIBILITY = "RPMA_FLUSH_TYPE_PERSISTENT is not supported, using RPMA_FLUSH_TYPE_VISIBILITY"


class TranscriptTest(support.ExamplesTest):
    def check(self, outcome: support.Outcome, server: list[str], client: list[str]) -> None:
        self.assert_status(outcome.client, 0)
        self.assert_status(outcome.server, 0)
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
                self.assert_status(outcome.client, 0)
                self.assert_status(outcome.server, 0)
                self.assertEqual([f"Old value: {ENGLISH}", f"New value: {SPANISH}"],
                    outcome.server.stdout.splitlines())
                self.assertEqual([f"Next value: {SPANISH}", f"Translation: {ENGLISH}"],
                    [line for line in outcome.client.stdout.splitlines() if ": " in line])

    def test_ping_pong_of_any_length(self) -> None:
        for seed, rounds in ((7, 3), (0, 1), (1234, 2), (2**64 - 60, 50)):
            with self.subTest(seed=seed, rounds=rounds):
                values = range(seed, seed + rounds - 1)
                client = [line for n in values for line in (f"Value sent: {n}", f"Value received: {n + 1}")]
                server = [line for n in values for line in (f"Value received: {n}", f"Value sent: {n + 1}")]
                self.check(support.pair("08", "08", (), (str(seed), str(rounds))), server, client)

    def test_done_message_is_never_lost(self) -> None:
        for _ in range(50):
            outcome = support.pair("08", "08", (), ("7", "1"))
            self.assert_status(outcome.client, 0)
            self.assert_status(outcome.server, 0)


class FailureTest(support.ExamplesTest):
    def check(self, server: str, client: str, server_status: int | None, server_words: str | None,
              client_words: str) -> None:
        outcome = support.pair(server, client)
        self.assert_status(outcome.client, 1)
        self.assert_one_line(outcome.client.stderr.splitlines()[-1], client_words)
        self.assert_status(outcome.server, server_status)
        if server_words:
            self.assertIn(server_words, outcome.server.stderr)

    def test_client_that_is_never_accepted(self) -> None:
        result = support.on_softrdma("01", "client", "--retry=1", support.ADDR, support.free_port(support.ADDR))
        self.assert_status(result, 1)
        first, last = result.stderr.splitlines()
        self.assertIn("yet, retrying for 1 s", first)
        self.assertIn("start the server first", last)

    def test_server_that_describes_no_memory(self) -> None:
        for client in ("02", "04", "05"):
            with self.subTest(client=client):
                self.check("01", client, 1, None, "no descriptor of its memory")

    def test_server_with_too_little_memory(self) -> None:
        for client in ("04", "05"):
            with self.subTest(client=client):
                self.check("02", client, 0, None, "offers 14 bytes of memory, too small for 1024 bytes at offset 0")

    def test_server_with_more_memory_than_the_client_can_read(self) -> None:
        with support.pmem_file() as path:
            outcome = support.pair("04", "02", (str(path),))
        self.assert_status(outcome.client, 1)
        self.assert_one_line(outcome.client.stderr, "offers 65536 bytes, at most 1024 expected")
        self.assert_status(outcome.server, 1)
        self.assertIn("New value: no text found", outcome.server.stderr)

    def test_server_rejects_a_client_without_a_text(self) -> None:
        for client in ("01", "02"):
            with self.subTest(client=client):
                self.check("03", client, 1, "no descriptor of its memory", "no server accepts connections")

    def test_client_of_another_example_breaks_off_the_game(self) -> None:
        self.check("08", "02", 1, "the peer disconnected before all operations were complete",
            "no descriptor of its memory")

    def test_server_that_never_answers(self) -> None:
        with self.listening("04") as (_, port):
            result = support.on_softrdma("08", "client", "--timeout=1", support.ADDR, port, "7", "3")
        self.assert_status(result, 1)
        self.assert_one_line(result.stderr, "no completion within 1 s", "--timeout")

    @contextlib.contextmanager
    def listening(self, number: str) -> Iterator[tuple[Program, str]]:
        """Yields a server without a time limit, and its port."""
        port = support.free_port(support.ADDR)
        command = [*support.SOFTRDMA, support.program(number, "server"), support.ADDR, port]
        with Program(command, support.HERE.environment()) as server:
            support.wait_until(lambda: "listening" in server.output()[1])
            yield server, port

    def play_and_kill(self, victim: str) -> tuple[Program, Program]:
        """Runs a game without an end and kills one of the programs."""
        port = support.free_port(support.ADDR)
        environment = support.HERE.environment()
        programs = {}
        for role, operands in (("server", []), ("client", ["7", "0", "1000", "--retry", "10"])):
            command = [*support.SOFTRDMA, support.program("08", role), support.ADDR, port, *operands]
            programs[role] = self.enterContext(Program(["stdbuf", "-oL", *command], environment))
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
        with self.listening("03") as (server, port):
            server.process.kill()
        result = support.on_softrdma("03", "client", support.ADDR, port)
        self.assert_status(result, 1)
        self.assertEqual([f"Next value: {ENGLISH}"], result.stdout.splitlines())


if __name__ == "__main__":
    support.main()
