# SPDX-License-Identifier: BSD-3-Clause
"""What SOFTRDMA_LOG makes the device say, of two programs that meet. usage: log_test.py SOFTRDMA"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SOFTRDMA = sys.argv[1]
LIMIT_S = 300  # on a hang


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Program:
    """rping on the device; what it writes to standard error is kept."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.error = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([SOFTRDMA, "run", "rping", *arguments], stdout=subprocess.DEVNULL, stderr=self.error,
                                        env={**os.environ, **environment})

    def wait(self) -> int:
        return self.process.wait(LIMIT_S)

    def log(self) -> str:
        self.error.seek(0)
        return "".join(line for line in self.error if line.startswith("softrdma["))

    def wait_for(self, pattern: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while re.search(pattern, self.log()) is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"no line '{pattern}' in:\n{self.log()}")
            time.sleep(0.05)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.error.close()


class LogTest(unittest.TestCase):
    def start(self, *arguments: str, **environment: str) -> Program:
        program = Program(*arguments, **environment)
        self.addCleanup(program.end)
        return program

    def listen(self, *arguments: str, **environment: str) -> tuple[Program, int]:
        port = free_port()
        server = self.start("-s", "-a", "127.0.0.1", "-p", str(port), *arguments, **environment)
        deadline = time.monotonic() + LIMIT_S
        while True:
            with open("/proc/net/tcp") as table:
                if any(f":{port:04X} " in line and " 0A " in line for line in table):
                    return server, port
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def meet(self, level: str, server_setting: dict[str, str], client_setting: dict[str, str]) -> tuple[str, str]:
        server, port = self.listen("-C", "3", SOFTRDMA_LOG=level, **server_setting)
        client = self.start("-c", "-a", "127.0.0.1", "-p", str(port), "-C", "3", SOFTRDMA_LOG=level, **client_setting)
        self.assertEqual((0, 0), (client.wait(), server.wait()))
        return server.log(), client.log()

    def test_both_sides_say_that_tcp_carries_everything(self) -> None:
        for server, client in (({"SOFTRDMA_TRUST": "none"}, {}), ({}, {"SOFTRDMA_TRUST": "none"})):
            for log in self.meet("info", server, client):
                self.assertRegex(log, r"(?m)^softrdma\[\d+\] info: TCP carries everything between here and the peer at 127\.0\.0\.1 port \d+$")

    def test_nothing_is_said_unless_it_is_asked_for(self) -> None:
        for level in ("", "off", "warn"):
            self.assertEqual(("", ""), self.meet(level, {"SOFTRDMA_TRUST": "none"}, {}))

    def test_a_protocol_violation_is_named(self) -> None:
        server, port = self.listen(SOFTRDMA_LOG="warn")
        with socket.create_connection(("127.0.0.1", port)) as caller:
            caller.sendall(b"GET / HTTP/1.0\r\n\r\n" * 10)
            own = caller.getsockname()[1]
            server.wait_for(rf"warn: the peer at 127\.0\.0\.1 port {own} broke the protocol")

    def test_a_lost_peer_is_named(self) -> None:
        server, port = self.listen("-P", SOFTRDMA_LOG="warn")
        client = self.start("-c", "-a", "127.0.0.1", "-p", str(port))
        deadline = time.monotonic() + LIMIT_S
        while True:  # until they are connected
            with open("/proc/net/tcp") as table:
                if any(f":{port:04X} " in line.split()[2] + " " and line.split()[3] == "01" for line in table):
                    break
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        time.sleep(1)  # to be past the handshake
        client.process.send_signal(signal.SIGKILL)
        server.wait_for(r"warn: the peer at 127\.0\.0\.1 port \d+ is lost: ")


if __name__ == "__main__":
    if shutil.which("rping") is None:
        print("skipped: rping is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
