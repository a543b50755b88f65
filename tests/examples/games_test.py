# SPDX-License-Identifier: BSD-3-Clause
"""The games 08, 12, 13 and their variants, and servers of many clients, with long runs and different clients."""

import subprocess

import support

MAX_CLIENTS = 10
ENDLESS = ("7", "1000000", "20000")


class GamesTest(support.ExamplesTest):
    def play(self, server: str, client: str, rounds: int, *server_operands: str, seed: int = 7) -> None:
        """Checks that each number is answered with the next one, on both sides and in order."""
        with self.subTest(server=server, client=client, rounds=rounds, operands=server_operands):
            outcome = support.pair(server, client, server_operands, (str(seed), str(rounds)))
            self.assert_success(outcome)
            count = rounds if client in ("08srq", "13") else rounds - 1
            numbers = range(seed, seed + count)
            expected = [line for n in numbers for line in (f"Value sent: {n}", f"Value received: {n + 1}")]
            self.assertEqual(expected, outcome.client.stdout.splitlines())
            if server != "13":
                answered = [line for n in numbers for line in (f"Value received: {n}", f"Value sent: {n + 1}")]
                self.assertEqual(answered, outcome.server.stdout.splitlines())

    def test_game_that_is_longer_than_the_queues(self) -> None:
        for number in ("08", "08srq", "12", "12scch"):
            self.play(number, number, 100)
        for word in ("m", "r"):
            self.play("08srq", "08srq", 100, word)
        self.play("13", "13", 100, "1")

    def test_game_of_one_round(self) -> None:
        for number in ("08", "08srq", "12", "12scch"):
            self.play(number, number, 1, seed=0)

    def test_game_up_to_the_largest_number(self) -> None:
        self.play("08", "08", 50, seed=2**64 - 60)

    def test_variants_play_with_each_other(self) -> None:
        for server, client in (("08", "12"), ("12", "12scch"), ("12scch", "08")):
            self.play(server, client, 5)
        self.play("08srq", "13", 5)

    def test_client_beyond_the_maximum_is_rejected(self) -> None:
        server, port = self.start_server("13", "--timeout", "30")
        clients = [self.start("13", "client", port, *ENDLESS) for _ in range(MAX_CLIENTS)]
        for client in clients:
            support.wait_until(lambda: "Value received" in client.output()[0])
        late = support.on_softrdma("13", "client", "--retry=0", support.ADDR, port, "7", "3")
        self.assert_failure(late, 1, "no server accepts connections", "accepts no more clients")
        self.assertIn(f"all {MAX_CLIENTS} places are taken", server.output()[1])
        numbers = [len(client.output()[0].splitlines()) for client in clients]
        support.wait_until(lambda: all(len(client.output()[0].splitlines()) > before
                                       for client, before in zip(clients, numbers, strict=True)))

    def test_client_that_is_killed_leaves_the_others_alone(self) -> None:
        server, port = self.start_server("13", "--clients", "2")
        victim = self.start("13", "client", port, *ENDLESS)
        support.wait_until(lambda: "Value received: 9" in victim.output()[0])
        victim.process.kill()
        result = support.on_softrdma("13", "client", support.ADDR, port, "100", "20")
        self.assert_status(result, 0)
        self.assertIn("Value received: 120", result.stdout)
        self.assertEqual(1, server.wait(support.TIMEOUT_S))
        self.assertIn("disconnected before it was done", server.output()[1])

    def test_more_clients_than_places_one_after_the_other(self) -> None:
        count = MAX_CLIENTS + 3
        for number in ("06", "06scch"):
            with self.subTest(number=number):
                server, port = self.start_server(number, "--clients", str(count))
                clients = [self.start(number, "client", port, str(seed), "--retry", "30") for seed in range(count)]
                for client in clients:
                    self.assertEqual(0, client.wait(support.TIMEOUT_S), client.output())
                self.assertEqual(0, server.wait(support.TIMEOUT_S), server.output())
                names = [client.output()[0].removeprefix("My name is: ").strip() for client in clients]
                self.assertEqual(count, len(set(names)))
                header, *lines = server.output()[0].splitlines()
                self.assertEqual("Today I have got in touch with:", header)
                self.assertEqual(sorted(f"- {name}" for name in names), sorted(lines))

    def test_an_invalid_client_affects_only_the_exit_status(self) -> None:
        for number in ("06", "06scch"):
            with self.subTest(number=number):
                server, port = self.start_server(number, "--clients", "2")
                self.assert_status(support.on_softrdma("01", "client", support.ADDR, port), 1)
                self.assert_status(support.on_softrdma(number, "client", support.ADDR, port, "8"), 0)
                self.assertEqual(1, server.wait(support.TIMEOUT_S))
                self.assertIn("run another example", server.output()[1])
                self.assertEqual(2, len(server.output()[0].splitlines()))

    def test_server_ends_without_another_client(self) -> None:
        for number, operands in (("06", ["--timeout", "1"]), ("13", ["1"])):
            with self.subTest(number=number):
                server, port = self.start_server(number, *operands)
                result: subprocess.CompletedProcess = support.on_softrdma(
                    number, "client", support.ADDR, port, *support.operands(number, "client"))
                self.assert_status(result, 0)
                self.assertEqual(0, server.wait(support.TIMEOUT_S), server.output())


if __name__ == "__main__":
    support.main()
