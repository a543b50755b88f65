# SPDX-License-Identifier: BSD-3-Clause
"""Examples 14 to 18: full queues, lost peers, many clients, and no leaked handles after a failure."""

import os
import re
import signal
import struct

import support

RECORDS_OFFSET, RECORD_SIZE = 64, 64


class QueueTest(support.ExamplesTest):
    def test_any_number_of_blocks_through_queues_of_any_size(self) -> None:
        for blocks, size in ((1, 16), (7, 16), (8, 16), (9, 16), (16, 16), (17, 16), (1024, 2), (100, 3), (1024, 1024)):
            with self.subTest(blocks=blocks, size=size):
                outcome = support.pair("14", "14", (), (str(blocks), str(size)))
                self.assert_success(outcome)
                self.assertEqual(f"Blocks received: {blocks}\n", outcome.server.stdout)
                completions = blocks // (size // 2) + 1
                self.assertEqual(f"Blocks written: {blocks}\nCompletions collected: {completions}\n",
                                 outcome.client.stdout)


class ReconnectTest(support.ExamplesTest):
    def count(self, path: os.PathLike) -> int:
        with open(path, "rb") as file:
            return struct.unpack_from("=Q", file.read(16), 8)[0]

    def check_log(self, path: os.PathLike, records: int) -> None:
        content = path.read_bytes()
        self.assertEqual((b"RECORDS\0", records, records), struct.unpack_from("=8sQQ", content))
        for number in range(records):
            found, text = struct.unpack_from("=Q56s", content, RECORDS_OFFSET + number * RECORD_SIZE)
            self.assertEqual((number, f"record {number}".encode()), (found, text.rstrip(b"\0")))
        self.assertEqual(b"", content[RECORDS_OFFSET + records * RECORD_SIZE :].rstrip(b"\0"))

    def test_restarted_server_has_all_records(self) -> None:
        with support.pmem_file() as path:
            port = support.free_port(support.ADDR)
            server = self.start("15", "server", port, "0", str(path), "on")
            client = self.start("15", "client", port, "300", "2000", "--retry", "20")
            support.wait_until(lambda: self.count(path) >= 20)
            server.process.send_signal(signal.SIGKILL)
            server.wait(support.TIMEOUT_S)
            durable = self.count(path)
            server = self.start("15", "server", port, "0", str(path), "on")
            self.assertEqual(0, client.wait(support.TIMEOUT_S), client.output())
            self.assertEqual(0, server.wait(support.TIMEOUT_S), server.output())
            counts = [int(count) for count in re.findall("Records in the log: ([0-9]+)", client.output()[0])]
            self.assertEqual([0, durable, 300], counts)
            self.assertIn("Connection lost at record", client.output()[0])
            self.check_log(path, 300)

    def test_client_that_is_killed_is_replaced_by_another(self) -> None:
        with support.pmem_file() as path:
            port = support.free_port(support.ADDR)
            server = self.start("15", "server", port, "0", str(path), "on")
            client = self.start("15", "client", port, "300", "2000", "--retry", "20")
            support.wait_until(lambda: self.count(path) >= 20)
            client.process.send_signal(signal.SIGKILL)
            client.wait(support.TIMEOUT_S)
            support.wait_until(lambda: server.output()[1].count("listening") == 2)
            durable = self.count(path)
            client = self.start("15", "client", port, "50")
            self.assertEqual(0, client.wait(support.TIMEOUT_S), client.output())
            self.assertEqual(0, server.wait(support.TIMEOUT_S), server.output())
            self.check_log(path, durable + 50)

    def test_log_that_is_full(self) -> None:
        with support.pmem_file() as path:
            outcome = support.pair("15", "15", ("0", str(path), "on"), ("1000",))
            self.assert_status(outcome.client, 0)
            self.check_log(path, 1000)
            outcome = support.pair("15", "15", ("0", str(path), "on"), ("1",))
            self.assert_failure(outcome.client, 1, "contains 1000 records, the maximum is 1000", "start a new one")
            self.check_log(path, 1000)


class PlayersTest(support.ExamplesTest):
    def test_ten_players_in_games_of_any_length(self) -> None:
        for number in ("16", "17"):
            for rounds in (1, 50):
                with self.subTest(number=number, rounds=rounds):
                    outcome = support.pair(number, number, ("10",), ("7", str(rounds), "0", "10"))
                    self.assert_success(outcome)
                    self.assertIn("Clients served: 10\n", outcome.server.stdout)
                    self.assertEqual(10 * rounds, outcome.client.stdout.count("Value received"))

    def test_server_fails_if_a_player_dies_but_serves_the_others(self) -> None:
        for number in ("16", "17"):
            with self.subTest(number=number):
                server, port = self.start_server(number, "2")
                victim = self.start(number, "client", port, "5000", "100000", "1000", "1")
                support.wait_until(lambda: "Value received: 5002" in victim.output()[0])
                other = self.start(number, "client", port, "7", "100", "1000", "1")
                support.wait_until(lambda: "Value received: 9" in other.output()[0])
                victim.process.send_signal(signal.SIGKILL)
                self.assertEqual(0, other.wait(support.TIMEOUT_S), other.output())
                self.assertEqual(1, server.wait(support.TIMEOUT_S), server.output())


class HandlesTest(support.ExamplesTest):
    def test_text_of_any_length(self) -> None:
        for text in ("x", "y" * 1023):
            outcome = support.pair("18", "18", (), (text,))
            self.assert_status(outcome.server, 0)
            self.assertEqual(f"Received a text: {text}\n", outcome.server.stdout)

    def test_failure_halfway_ends_with_its_status(self) -> None:
        outcome = support.pair("01", "18")
        self.assert_failure(outcome.client, 1, "no descriptor of its memory")


if __name__ == "__main__":
    support.main()
