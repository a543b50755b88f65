#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of rpmemd over HTTP: their format and values, and clients that are slow or hostile."""

import http.client
import re
import select
import shutil
import signal
import socket
import subprocess
import time
import unittest

from support import DAEMON, LIMIT_S, TOOL, MirrorTest, execute, stop, wait_until

CLIENT_LIMIT_S = 10
MAX_CLIENTS, MAX_CLIENTS_PER_ADDRESS = 16, 8


class Metrics(MirrorTest):
    def metered(self):
        """A target with metrics, and their port."""
        target = self.target(options=["--metrics", "127.0.0.1:0"])
        return target, int(re.fullmatch(r"rpmemd: metrics on port (\d+)\n", target.process.stdout.readline())[1])

    def get(self, port, path="/metrics", method="GET", limit_s=LIMIT_S):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=limit_s)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.getheader("Content-Type"), response.read().decode()
        finally:
            connection.close()

    def samples(self, port):
        """Value of each sample by name and labels."""
        status, kind, text = self.get(port)
        self.assertEqual((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"))
        return self.parsed(text)

    def check_histogram(self, found, name, labels):
        buckets = [value for (sample, with_labels), value in found.items() if sample == name + "_bucket" and with_labels.startswith(labels)]
        self.assertEqual(buckets, sorted(buckets))
        self.assertEqual(buckets[-1], found[name + "_count", labels])
        self.assertEqual(found[name + "_sum", labels] > 0, buckets[-1] > 0)
        return buckets[-1]

    def test_values(self):
        (a, port), b = self.metered(), self.target()
        found = self.samples(port)
        self.assertEqual((found["rpmemd_clients", None], found["rpmemd_rejected_clients_total", None]), (0, 0))
        self.assertFalse([name for name, _ in found if name.startswith("rpmemd_set_")])
        host = self.created(a, b)
        labels = 'set="set",copy="1"'

        def values(*names):
            found = self.samples(port)
            return [found[f"rpmemd_{name}", labels] for name in names]

        self.assertEqual(values("set_length_bytes", "set_promised_epoch", "set_record_epoch", "set_copies", "set_copies_in_sync",
                                "set_in_sync", "set_writer_attached"), [8 << 20, 1, 1, 3, 3, 1, 0])
        writer = self.writer(host)
        before = self.samples(port)
        for text in ("first", "second", "mark 77"):
            self.assertEqual(self.flush(writer, text), 0)
        found = self.samples(port)
        self.assertEqual(found["rpmemd_set_consistency_point", labels], 77)
        self.assertEqual((found["rpmemd_set_writer_attached", labels], found["rpmemd_clients", None]), (1, 1))
        self.assertGreaterEqual(self.check_histogram(found, "rpmemd_set_flush_seconds", labels), 2)
        name = "rpmemd_set_flushed_bytes_total", labels
        self.assertGreater(found[name], before[name])
        # Each reader waits for a consistency point. One of them is stopped.
        there = self.host(6, a)
        readers = [subprocess.Popen([TOOL, "read", "--timeout", "300", there, self.place / f"read{i}"]) for i in range(2)]
        for reader in readers:
            self.addCleanup(lambda reader=reader: (reader.kill(), reader.wait()))
        wait_until(lambda: values("set_readers") == [2])
        stop(readers[0])
        self.assertEqual(values("set_readers"), [2])
        for reader in readers:
            reader.kill()
        wait_until(lambda: values("set_readers") == [0])
        b.kill()
        self.assertEqual(self.flush(writer, "without b"), 0)
        self.assertEqual(values("set_copies", "set_copies_in_sync", "set_in_sync"), [3, 2, 1])
        # A promotion fences the writer.
        self.done("promote", self.host(5, a, b))
        self.assertEqual(values("set_fenced_writers_total", "set_promised_epoch", "set_clean"), [1, 3, 1])

    @staticmethod
    def metrics_of(writer):
        writer.stdin.write("metrics\n")
        return "".join(iter(writer.stdout.readline, "# end\n"))

    def test_values_of_the_writer(self):
        a, b = self.target(), self.target()
        host = self.created(a, b)
        writer = self.writer(host)
        for text in ("first", "second"):
            self.assertEqual(self.flush(writer, text), 0)
        found = self.parsed(self.metrics_of(writer))
        labels = next(labels for name, labels in found if name == "rpma_mirror_epoch")
        self.assertRegex(labels, r'^set="[0-9a-f]{32}"$')
        self.assertEqual(self.check_histogram(found, "rpma_mirror_flush_seconds", labels), 2)

        def values(*names):
            return [found[f"rpma_mirror_{name}", labels] for name in names]

        self.assertEqual(values("usable", "epoch", "copies", "copies_in_sync", "flushes_total", "flushed_bytes_total", "evictions_total"),
                         [1, 2, 3, 3, 2, 11, 0])
        self.assertNotIn(("rpma_mirror_lease_left_milliseconds", labels), found)
        b.kill()
        self.assertEqual(self.flush(writer, "without b"), 0)
        found = self.parsed(self.metrics_of(writer))
        self.assertEqual(values("copies_in_sync", "flushes_total", "evictions_total"), [2, 3, 1])
        of_b = f'{labels},copy="2",location="{b.address}"'
        self.assertEqual(found["rpma_mirror_copy_in_sync", of_b], 0)

    def test_prometheus_accepts_the_output(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("promtool is missing: install prometheus")
        (a, port), b = self.metered(), self.target()
        host = self.created(a, b)
        writer = self.writer(host)
        self.assertEqual(self.flush(writer, "text"), 0)
        for text in (self.get(port)[2], self.metrics_of(writer), self.done("status", "--prometheus", host)):
            done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_other_requests_are_rejected(self):
        _, port = self.metered()
        self.assertEqual(self.get(port, "/")[0], 404)
        self.assertEqual(self.get(port, "/metrics/")[0], 404)
        self.assertEqual(self.get(port, method="POST")[0], 405)
        status, _, text = self.get(port, method="HEAD")
        self.assertEqual((status, text), (200, ""))
        for request in (b"\0" * 100 + b"\r\n\r\n", b"GET /" + b"x" * 100_000, b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 20_000):
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
                try:
                    connection.sendall(request)
                    while connection.recv(4096):
                        pass
                except ConnectionError:
                    pass
        self.assertEqual(self.get(port)[0], 200)

    def test_slow_clients_delay_nothing_else(self):
        (a, port), b = self.metered(), self.target()
        host = self.created(a, b)
        writer = self.writer(host)
        slow = [socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) for _ in range(2 * MAX_CLIENTS)]
        self.addCleanup(lambda: [connection.close() for connection in slow])
        begin = time.monotonic()
        open_ones = slow
        # All of them send a byte a second, which keeps a connection from being idle.
        while open_ones and time.monotonic() - begin < 6 * CLIENT_LIMIT_S:
            for connection in open_ones:
                try:
                    connection.send(b"G")
                except ConnectionError:
                    pass
            flushed = time.monotonic()
            self.assertEqual(self.flush(writer, "text"), 0)
            self.assertLess(time.monotonic() - flushed, 5)
            time.sleep(1)
            ended = select.select(open_ones, [], [], 0)[0]
            open_ones = [connection for connection in open_ones if connection not in ended]
        self.assertEqual(open_ones, [])
        self.assertEqual(self.get(port)[0], 200)
        # The end does not wait for clients.
        idle = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self.addCleanup(idle.close)
        a.process.send_signal(signal.SIGTERM)
        self.assertEqual(a.process.wait(5), 0)
        a.process.stdout.close()

    def test_addresses_are_checked(self):
        a = self.target()

        def failed(status, pattern, *words):
            done = execute([DAEMON, "--listen", "127.0.0.1:0", "--key-file", a.place / "key", "--poolset-dir", a.place,
                            "--log-file", a.place / "log2", *words])
            self.assertEqual(done.returncode, status)
            self.assertRegex(done.stderr, pattern)

        failed(255, "--metrics: '9999': not of the form ADDRESS:PORT", "--metrics", "9999")
        failed(255, "--metrics: '127.0.0.1:65536': invalid port", "--metrics", "127.0.0.1:65536")
        failed(1, "--metrics: cannot listen on 127.0.0.1:.*Address already in use", "--metrics", a.address)
        file = a.place / "conf"
        file.write_text("metrics = host:x\n")
        failed(1, r"conf:1: 'host:x': invalid port", "--config", file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
