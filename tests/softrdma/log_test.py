# SPDX-License-Identifier: BSD-3-Clause
"""Messages of SOFTRDMA_LOG for two programs that connect. usage: log_test.py SOFTRDMA"""

import ctypes
import errno
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable

from support import free_port, listens, skip, wait_until

SOFTRDMA = sys.argv[1]
LIMIT_S = 100
TCP_ONLY = r"(?m)^softrdma\[\d+\] info: peer 127\.0\.0\.1 port \d+: shared memory not used"
SYSTEM_CALLS = {"x86_64": {"memfd_create": 319, "process_vm_readv": 310},
                "aarch64": {"memfd_create": 279, "process_vm_readv": 270}}[os.uname().machine]


def forbid(call: str) -> None:
    """Installs a seccomp filter: the call fails with EPERM in this process and its children."""
    load_number, equal, answer = 0x20, 0x15, 0x06
    allowed, refused = 0x7fff0000, 0x00050000 | errno.EPERM
    steps = [(load_number, 0, 0, 0), (equal, 0, 1, SYSTEM_CALLS[call]), (answer, 0, 0, refused), (answer, 0, 0, allowed)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    filter_ = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    set_seccomp, filter_mode, no_new_privileges = 22, 2, 38
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0 or libc.prctl(set_seccomp, filter_mode, filter_) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


class Program:
    """Runs rping on the device. Its standard error is recorded."""

    def __init__(self, *arguments: str, prefix: tuple[str, ...] = (), confine: Callable[[], None] | None = None,
                 **environment: str) -> None:
        self.error = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*prefix, SOFTRDMA, "run", "rping", *arguments], stdout=subprocess.DEVNULL,
                                        stderr=self.error, env={**os.environ, **environment}, preexec_fn=confine)

    def wait(self) -> int:
        return self.process.wait(LIMIT_S)

    def log(self) -> str:
        self.error.seek(0)
        return "".join(line for line in self.error if line.startswith("softrdma["))

    def wait_for(self, pattern: str) -> None:
        wait_until(lambda: re.search(pattern, self.log()), f"line '{pattern}'", LIMIT_S)

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
        wait_until(lambda: listens(port), "the server", LIMIT_S)
        return server, port

    def meet(self, level: str, server_setting: dict[str, str], client_setting: dict[str, str]) -> tuple[str, str]:
        server, port = self.listen("-C", "3", SOFTRDMA_LOG=level, **server_setting)
        client = self.start("-c", "-a", "127.0.0.1", "-p", str(port), "-C", "3", SOFTRDMA_LOG=level, **client_setting)
        self.assertEqual((0, 0), (client.wait(), server.wait()))
        return server.log(), client.log()

    def test_both_sides_report_that_all_traffic_uses_tcp(self) -> None:
        for server, client in (({"SOFTRDMA_TRUST": "none"}, {}), ({}, {"SOFTRDMA_TRUST": "none"})):
            for log in self.meet("info", server, client):
                self.assertRegex(log, f"{TCP_ONLY}: one of them shares no memory")

    def meet_for_long(self, **options: object) -> tuple[Program, Program]:
        """Starts two programs that continue to run, the client with the options."""
        server, port = self.listen("-P", SOFTRDMA_LOG="info")
        client = self.start("-c", "-a", "127.0.0.1", "-p", str(port), SOFTRDMA_LOG="info", **options)
        return server, client

    def wait_for_path(self, program: Program, pattern: str) -> None:
        """Waits until `softrdma ps` prints a line for a queue pair that contains the pattern."""
        command = [SOFTRDMA, "ps", str(program.process.pid)]
        wait_until(lambda: re.search(pattern, subprocess.run(command, capture_output=True, text=True, check=False).stdout),
                   f"line '{pattern}'", LIMIT_S)

    def test_both_sides_report_different_users(self) -> None:
        other_user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        if os.geteuid() != 0 or subprocess.run([*other_user, "test", "-x", SOFTRDMA], check=False).returncode != 0:
            self.skipTest("running a program as another user needs root, and a build that this user can read")
        for program in self.meet_for_long(prefix=other_user):
            program.wait_for(f"{TCP_ONLY}: they belong to different users")
            self.wait_for_path(program, r"transport=tcp reason=other-user ")

    def test_both_sides_report_that_the_system_denies_access(self) -> None:
        for program in self.meet_for_long(confine=lambda: forbid("memfd_create")):
            program.wait_for(f"{TCP_ONLY}: access between the processes is denied by the system")
            self.wait_for_path(program, r"transport=tcp reason=denied ")

    def test_private_memory_that_the_system_refuses_is_named(self) -> None:
        server, client = self.meet_for_long(confine=lambda: forbid("process_vm_readv"))
        client.wait_for(rf"info: process {server.process.pid}: private memory not accessible: "
                        r"process_vm_readv: Operation not permitted \(mapped files only\)")
        for program in (server, client):
            self.wait_for_path(program, r"transport=(shm|shm-fd) posted")

    def test_no_message_is_logged_below_its_level(self) -> None:
        for level in ("", "off", "warn"):
            self.assertEqual(("", ""), self.meet(level, {"SOFTRDMA_TRUST": "none"}, {}))

    def test_reasons_of_failures_are_logged(self) -> None:
        with socket.socket() as used:
            used.bind(("127.0.0.1", 0))
            used.listen()
            busy = str(used.getsockname()[1])
            free = str(free_port())
            small = ("prlimit", "--fsize=1048576")
            for name, arguments, options, pattern in (
                    ("rejected", ("-c", "-p", free), {}, r"info: peer 127\.0\.0\.1 port \d+: connection rejected: reason \d+"),
                    ("not bound", ("-s", "-p", busy), {}, rf"info: address .* port {busy}: not bound: Address already in use"),
                    ("file size", ("-c", "-p", free), {"prefix": small}, r"info: shared memory: not created: .*RLIMIT_FSIZE"),
                    ("seccomp", ("-c", "-p", free), {"confine": lambda: forbid("memfd_create")},
                     r"info: shared memory: not created: memfd_create: Operation not permitted")):
                with self.subTest(name):
                    self.start(*arguments, "-a", "127.0.0.1", SOFTRDMA_LOG="info", **options).wait_for(pattern)

    def test_a_silent_caller_and_a_lost_peer_are_logged(self) -> None:
        server, port = self.listen("-P", SOFTRDMA_LOG="debug")
        with socket.create_connection(("127.0.0.1", port)):
            server.wait_for(r"info: peer disconnected: no message within 2 s")
        client = self.start("-c", "-a", "127.0.0.1", "-p", str(port), SOFTRDMA_LOG="debug")
        pattern = r"debug: queue pair \d+: requests are executed in the memory of queue pair \d+"
        server.wait_for(pattern)
        client.wait_for(pattern)
        server.process.kill()
        client.wait_for(r"warn: peer 127\.0\.0\.1 port \d+: connection lost")

    def test_a_protocol_violation_is_named(self) -> None:
        server, port = self.listen(SOFTRDMA_LOG="warn")
        with socket.create_connection(("127.0.0.1", port)) as caller:
            caller.sendall(b"GET / HTTP/1.0\r\n\r\n" * 10)
            own = caller.getsockname()[1]
            server.wait_for(rf"warn: peer 127\.0\.0\.1 port {own}: protocol violation")


if __name__ == "__main__":
    if shutil.which("rping") is None:
        skip("rping is not installed")
    unittest.main(argv=sys.argv[:1], verbosity=2)
