# SPDX-License-Identifier: BSD-3-Clause
"""If one side exits, dies or is stopped, neither side hangs."""

import contextlib
import pathlib
import signal
import tempfile
import time
import unittest
from collections.abc import Iterator

from support import ADDRESS, DEEP, EXTERNAL, IN_TREE, METHODS, SERVER, Fio, FioTest, Job, free_port, is_listening

EVERY_METHOD = (*METHODS, "aof")
LONG = {"number_ios": None, "time_based": True, "runtime": 60}
# Less than the minute for which the client would continue.
END_S = 20


@contextlib.contextmanager
def running(method: str, server: Fio, client: Fio, values: dict) -> Iterator[tuple[Job, Job]]:
    """Returns a running pair."""
    place = {"serverip": ADDRESS, "port": free_port(ADDRESS)}
    polling = {"busy_wait_polling": values.get("busy_wait_polling", 0)}
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        with Job(server, method, "server", SERVER | place | polling, directory) as server_job:
            server_job.wait_until_listening()
            with Job(client, method, "client", DEEP | LONG | place | values, directory) as client_job:
                # A server stops listening when its client has connected.
                while client_job.program.process.poll() is None and is_listening(int(place["port"])):
                    time.sleep(0.05)
                time.sleep(1)
                yield server_job, client_job


class Endings(FioTest):
    def test_a_killed_server_ends_the_client(self) -> None:
        for method in EVERY_METHOD:
            for busy in (0, 1):
                with self.subTest(method=method, busy=busy):
                    with running(method, EXTERNAL, EXTERNAL, {"busy_wait_polling": busy}) as (server, client):
                        self.assertIsNone(client.program.process.poll())
                        server.program.process.kill()
                        result = client.result(END_S)
                    self.assertEqual(1, result.status, result)
                    self.assert_one_line(result.stderr, f"librpma_{method}_client")

    def test_a_killed_client_ends_the_server(self) -> None:
        for method, status in (("apm", 0), ("gpspm", 1), ("aof", 1)):
            for busy in (0, 1):
                with self.subTest(method=method, busy=busy):
                    with running(method, EXTERNAL, EXTERNAL, {"busy_wait_polling": busy}) as (server, client):
                        client.program.process.kill()
                        result = server.result(END_S)
                    self.assertEqual(status, result.status, result)
                    if status:
                        self.assert_one_line(result.stderr, f"librpma_{method}_server", "the client disconnected")

    def test_a_killed_server_of_fios_own_ends_the_client(self) -> None:
        for method in METHODS:
            with self.subTest(method=method), running(method, IN_TREE, EXTERNAL, {}) as (server, client):
                server.program.process.kill()
                result = client.result(END_S)
                self.assertEqual(1, result.status, result)

    def test_an_interrupted_client_shuts_down(self) -> None:
        for method in EVERY_METHOD:
            for server_fio in (EXTERNAL, IN_TREE) if method in METHODS else (EXTERNAL,):
                with self.subTest(method=method, server=server_fio.engines):
                    with running(method, server_fio, EXTERNAL, {}) as (server, client):
                        client.program.process.send_signal(signal.SIGINT)
                        self.assertEqual(128, client.result(END_S).status)
                        result = server.result(END_S)
                    self.assertEqual(0, result.status, result)

    def test_the_time_of_the_job_ends_both(self) -> None:
        for method in EVERY_METHOD:
            with self.subTest(method=method), running(method, EXTERNAL, EXTERNAL, {"runtime": 2}) as (server, client):
                self.assertEqual(0, client.result(END_S).status)
                self.assertEqual(0, server.result(END_S).status)

    def test_a_server_that_waits_can_be_interrupted(self) -> None:
        for method in EVERY_METHOD:
            with self.subTest(method=method), tempfile.TemporaryDirectory() as directory:
                place = {"serverip": ADDRESS, "port": free_port(ADDRESS)}
                with Job(EXTERNAL, method, "server", SERVER | place, pathlib.Path(directory)) as server:
                    server.wait_until_listening()
                    server.program.process.send_signal(signal.SIGINT)
                    result = server.result(END_S)
                self.assertIsNotNone(result.status)
                self.assert_one_line(result.stderr, f"librpma_{method}_server", "stopped before a client connected")

    def test_a_server_that_serves_can_be_interrupted(self) -> None:
        for method in EVERY_METHOD:
            with self.subTest(method=method), running(method, EXTERNAL, EXTERNAL, {}) as (server, client):
                server.program.process.send_signal(signal.SIGINT)
                self.assertIsNotNone(server.result(END_S).status)
                self.assertEqual(1, client.result(END_S).status)

    def test_a_client_waits_for_a_late_server(self) -> None:
        for method in METHODS:
            with self.subTest(method=method), tempfile.TemporaryDirectory() as name:
                place = {"serverip": ADDRESS, "port": free_port(ADDRESS)}
                directory = pathlib.Path(name)
                with Job(EXTERNAL, method, "client", DEEP | place, directory) as client:
                    time.sleep(1)
                    self.assertIsNone(client.program.process.poll())
                    with Job(EXTERNAL, method, "server", SERVER | place, directory) as server:
                        self.assertEqual(0, client.result(END_S).status)
                        self.assertEqual(0, server.result(END_S).status)


if __name__ == "__main__":
    unittest.main(verbosity=2)
