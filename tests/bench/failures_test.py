#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Invalid input, dying peers and full disks: one message, the right exit status, and no lost result."""

import json
import os
import re
import resource
import signal
import socket
import threading
import time
import unittest

from support import LIMIT_S, PROGRAM, SHORT, BenchTest, is_alive, wait_until


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


class WrongInput(BenchTest):
    def test_command_line(self):
        for words, pattern in {
            ("local", "-w", "frob"): "unknown workload 'frob' \\(choose from read, write_flush",
            ("local", "--profile", "fast"): "unknown profile 'fast'",
            ("local", "--profile", "quick", "-w", "read"): "--profile excludes workloads",
            ("local", "-w", "read", "-b", "12"): "not a multiple of 8",
            ("local", "-w", "read", "-b", "4Q"): "is not a size",
            ("local", "-w", "read", "-d", "0"): "depth 0 is out of range",
            ("local", "-w", "read", "-t", "2"): "2 threads exceed 1 connections",
            ("local", "-w", "read", "--api", "smtp"): "unknown api 'smtp'",
            ("local", "-w", "read", "--memory", "tape"): "unknown memory 'tape'",
            ("local", "-w", "read", "--lib", "/nowhere"): "/nowhere: librpma.so.0 not found",
            ("sweep", "height"): "unknown axis 'height'",
            ("compare",): "--against",
            ("frob",): "unknown subcommand frob \\(see rpma-bench --help",
            ("local", "--frob"): "--help",
        }.items():
            with self.subTest(words=words):
                self.refused(self.bench(*words), 2, pattern)

    def test_missing_shared_memory_is_reported_with_the_reason(self):
        points = ("--workload", "read", "--block-size", "64")
        for setting, status in (("tcp", "not used: SOFTRDMA_TRANSPORT=tcp"), ("auto", None)):
            done = self.succeeded(self.local(*points, env={**os.environ, "SOFTRDMA_TRANSPORT": setting}))
            lines = [line for line in done.stdout.splitlines() if "path for programs of one host" in line]
            self.assertEqual([f"The path for programs of one host is {status}."] if status else [], lines)

    def test_target_that_is_a_file(self):
        (self.place / "precious").write_text("precious")
        self.refused(self.local("-w", "read", "--target", self.place / "precious"), 2, "neither a directory nor")
        self.assertEqual((self.place / "precious").read_text(), "precious")

    def test_result_file_that_cannot_be_written(self):
        done = self.bench("local", "--transport", "softrdma", "-w", "read", *SHORT, "--out", "no/such/r.json")
        self.refused(done, 1, "no/such/r.json")

    def test_server_without_a_target_and_ports_out_of_range(self):
        with self.server("--target", "none", "--once") as (server, port):
            socket.create_connection(("127.0.0.1", port)).close()
            self.assertEqual(server.wait(timeout=LIMIT_S), 0)
        for words in ("server", "--port"), ("server", "--rdma-port"), ("client", "127.0.0.1", "--port"), ("sweep", "depth", "--port"):
            for port in "65536", "-1", "x":
                self.refused(self.bench(*words, port), 2, "port")

    def test_resuming_with_another_plan(self):
        self.assertEqual(self.local("-w", "read").returncode, 0)
        for words in ("--profile", "standard"), ("-w", "read"):
            self.refused(self.local(*words, "--resume", "r.json"), 2, "r.json: .*start a new run")

    def test_busy_port(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = self.on_softrdma("server", "--port", port)
        self.refused(done, 1, f"port {port} of 127.0.0.1 is in use .*--port")

    def test_a_port_without_a_server(self):
        with socket.create_server(("127.0.0.1", 0)) as gone:
            port = gone.getsockname()[1]
        self.refused(self.bench("client", "127.0.0.1", "--port", port, *SHORT), 1, "Connection refused")


class OtherPeers(BenchTest):
    def peer(self, response):
        """A TCP server that responds to the first line with response."""
        listening = self.enterContext(socket.create_server(("127.0.0.1", 0)))

        def respond():
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as lines:
                lines.readline()
                connection.sendall(response)

        thread = threading.Thread(target=respond)
        thread.start()
        self.addCleanup(thread.join)
        return listening.getsockname()[1]

    def test_server_of_another_version(self):
        response = json.dumps({"ok": False, "status": 1, "error": "this server uses version 9 of the control protocol"})
        done = self.bench("client", "127.0.0.1", "--port", self.peer(response.encode() + b"\n"), *SHORT)
        self.refused(done, 1, "version 9")
        done = self.bench("client", "127.0.0.1", "--port", self.peer(b'{"ok":true,"protocol":9}\n'), *SHORT)
        self.refused(done, 1, "version 9 of the control protocol, this rpma-bench version 2")

    def test_server_of_another_kind(self):
        done = self.bench("client", "127.0.0.1", "--port", self.peer(b"HTTP/1.1 400 Bad Request\r\n\r\n"), *SHORT)
        self.refused(done, 1, "is not rpma-bench")

    def asked(self, port, *lines):
        """Responses of a server to the lines, until it ends the connection."""
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client, client.makefile("rb") as answers:
            client.sendall(b"".join(lines))
            client.shutdown(socket.SHUT_WR)
            return [json.loads(line) for line in answers]

    def test_invalid_peers_do_not_end_or_block_the_server(self):
        hello = b'{"do":"hello","protocol":2}\n'

        def setup(**given):
            parameters = {"block_size": 4096, "depth": 1, "connections": 1, "threads": 1, "flush": "none",
                          "flush_interval": 1, "polling": "event", "access": "sequential", "cpu_load": 0, "target": "dram"}
            point = {"workload": "read", "api": "librpma", "parameters": parameters | given}
            return json.dumps({"do": "open", "setup": point}).encode() + b"\n"

        with self.server() as (process, port):
            # The client sends no data: the next client waits until the handshake times out, and is served.
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S):
                self.assertTrue(self.asked(port, hello)[0]["ok"])
            response, = self.asked(port, b'{"do":"hello","protocol":9}\n')
            self.assertFalse(response["ok"])
            self.assertRegex(response["error"], "version 2 .* version 9")
            for words in b'{"do":5}\n', b"x" * 8192:
                self.assertEqual(self.asked(port, words), [])
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client:
                client.sendall(b"GET / HTTP/1.1\r\n\r\n")
                self.assertEqual(client.recv(100), b"")
            answers = self.asked(port, hello, b'{"do":5}\n', b'{"do":"begin","seed":"x","for_s":"long"}\n',
                                 b'{"do":"open","setup":7}\n')
            self.assertEqual([response["ok"] for response in answers], [True, False, False, False])
            for given, status, reason in (
                    ({"block_size": 0}, 2, "block size 0 is out of range"),
                    ({"block_size": 7}, 2, "block size 7 is out of range"),
                    ({"block_size": 12}, 2, "block size 12 is not a multiple of 8"),
                    ({"connections": 0}, 2, "connections 0 is out of range"),
                    ({"depth": 1 << 31}, 2, "depth 2147483648 is out of range"),
                    ({"block_size": 64 << 20, "depth": 4096, "connections": 4096}, 1, "more than half of the server's memory")):
                with self.subTest(given=given):
                    _, response = self.asked(port, hello, setup(**given))
                    self.assertFalse(response["ok"])
                    self.assertEqual(response["status"], status)
                    self.assertIn(reason, response["error"])
            self.assertIsNone(process.poll())
            self.assertTrue(self.asked(port, hello, setup(block_size=8))[1]["ok"])


class DyingPeers(BenchTest):
    def client(self, port):
        return self.running(PROGRAM, "client", "127.0.0.1", "--transport", "softrdma", "--port", port, "-w", "write_flush",
                            "--duration", "30", "--repeats", "1", "--report", "none", "--out", "r.json")

    def await_result(self):
        wait_until((self.place / "r.json").exists)

    def test_server_is_killed(self):
        with self.server() as (server, port), self.client(port) as client:
            self.await_result()
            time.sleep(0.5)
            server.kill()
            _, stderr = client.communicate(timeout=LIMIT_S)
        self.assertEqual(client.returncode, 1)
        self.assertEqual(len(stderr.splitlines()), 1, stderr)
        self.assertIn("--resume r.json", stderr)
        self.assertFalse(self.result()["complete"])

    def test_client_is_killed(self):
        with self.server() as (server, port):
            with self.client(port) as client:
                self.await_result()
                own = children_of(client.pid)
                self.assertEqual(len(own), 1)
                client.kill()
                client.wait(timeout=LIMIT_S)
                wait_until(lambda: not is_alive(own[0]))
            (self.place / "r.json").unlink()
            # The server is available for the next client.
            done = self.on_softrdma("client", "127.0.0.1", "--port", port, "-w", "read", *SHORT, "--out", "r.json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIsNone(server.poll())

    def test_own_processes_are_killed(self):
        for which in (0, 1):
            with self.subTest(which=which):
                with self.running(PROGRAM, "local", "--transport", "softrdma", "-w", "write_flush", "--duration", "30",
                                  "--report", "none", "--out", "r.json") as local:
                    self.await_result()
                    own = children_of(local.pid)
                    self.assertEqual(len(own), 2)
                    time.sleep(0.5)
                    os.kill(own[which], signal.SIGKILL)
                    _, stderr = local.communicate(timeout=LIMIT_S)
                self.assertEqual(local.returncode, 1)
                self.assertEqual(len(stderr.splitlines()), 1, stderr)
                wait_until(lambda: not any(map(is_alive, own)))
                (self.place / "r.json").unlink()

    def test_server_ends_without_clients(self):
        with self.server("--idle-limit", "0.2") as (server, _):
            self.assertEqual(server.wait(timeout=LIMIT_S), 0)


class Resuming(BenchTest):
    def test_killed_run_keeps_what_is_done(self):
        with self.running(PROGRAM, "local", "--transport", "softrdma", "-w", "read,write_flush,atomic_write", "-b", "64,512",
                          "--duration", "0.1", "--repeats", "2", "--warm-up", "0", "--report", "none",
                          "--out", "r.json") as local:
            def done():
                return [p for p in self.result()["points"] if p["status"] == "done"] if (self.place / "r.json").exists() else []
            wait_until(lambda: len(done()) >= 2)
            local.kill()
            local.wait(timeout=LIMIT_S)
        before = self.result()
        self.assertFalse(before["complete"])
        self.assertEqual(len(before["points"]), 5)
        kept = [p for p in before["points"] if p["status"] == "done"]
        again = self.bench("local", "--transport", "softrdma", "--resume", "r.json", "--report", "none")
        self.assertEqual(again.returncode, 0, again.stderr)
        after = self.result()
        self.assertTrue(after["complete"])
        self.assertEqual({p["status"] for p in after["points"]}, {"done"})
        self.assertEqual({len(p["repeats"]) for p in after["points"]}, {2})
        for point in kept:
            self.assertIn(point, after["points"])
        self.assertGreater(after["duration_s"], before["duration_s"])

    def test_interrupted_run_reports_how_to_continue(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number=number):
                with self.running(PROGRAM, "local", "--transport", "softrdma", "-w", "read", "--duration", "30",
                                  "--report", "none", "--out", "r 1.json") as local:
                    wait_until((self.place / "r 1.json").exists)
                    local.send_signal(number)
                    _, stderr = local.communicate(timeout=LIMIT_S)
                self.assertEqual(local.returncode, -number)
                self.assertEqual(stderr, "rpma-bench: interrupted: the completed points are in r 1.json (continue with --resume "
                                 "'r 1.json')\n")
                self.assertFalse(self.result("r 1.json")["complete"])
                (self.place / "r 1.json").unlink()

    def test_malformed_results(self):
        (self.place / "other.json").write_text("{}")
        self.refused(self.bench("local", "--resume", "other.json"), 1, "other.json")
        self.refused(self.bench("local", "--resume", "none.json"), 1, "none.json")


class FullDisk(BenchTest):
    def limited(self, size):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return limit

    def test_result_that_does_not_fit(self):
        done = self.local("-w", "read", "-b", "64,128,256", "--target", "none", preexec_fn=self.limited(3000))
        self.refused(done, 1, r"r\.json.*File too large")
        # Results that were complete before remain, and no partly written file remains.
        self.assertEqual(self.result()["format"], "rpma-bench-results")
        self.assertEqual([entry.name for entry in self.place.iterdir()], ["r.json"])

    def test_target_that_does_not_fit(self):
        done = self.local("-w", "read", "--target", self.place, preexec_fn=self.limited(3000))
        self.refused(done, 1, "cannot use the target .*: File too large")


class Verification(BenchTest):
    def test_data_changed_by_another_process_is_detected(self):
        """The target changes during the read."""
        target = self.place / "target"
        target.mkdir()
        with self.running(PROGRAM, "local", "--transport", "softrdma", "-w", "read", "--memory", "target",
                          "--target", target, "--duration", "3", "--repeats", "1", "--warm-up", "0", "--report", "none",
                          "--out", "r.json") as local:
            wait_until(lambda: (self.place / "r.json").exists() and len(children_of(local.pid)) == 2)
            server = next(pid for pid in children_of(local.pid) if b"server" in self.command_line(pid))
            wait_until(lambda: self.spoil(server, target))
            stdout, stderr = local.communicate(timeout=LIMIT_S)
        self.assertEqual(local.returncode, 1, stdout)
        self.assertIn("FAILED: data mismatch", stdout)
        self.assertEqual(self.result()["points"][0]["status"], "failed")

    def command_line(self, pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ")

    def spoil(self, pid, directory):
        with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
            for line in maps:
                found = re.match(r"([0-9a-f]+)-[0-9a-f]+ .*" + re.escape(str(directory)), line)
                if found:
                    break
            else:
                return False
        time.sleep(1)  # the target is filled when the run begins
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(int(found[1], 16) + 4096)
            memory.write(b"spoiled!")
        return True


if __name__ == "__main__":
    unittest.main()
