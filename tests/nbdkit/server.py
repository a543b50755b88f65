# SPDX-License-Identifier: BSD-3-Clause
"""Disks for the tests: nbdkit with the plugin, and real targets."""

import os
import pathlib
import signal
import subprocess
import time

import nbd

from support import LIMIT_S, MirrorTest, execute

PLUGIN = os.environ["NBDKIT_PLUGIN"]
SECTOR = 512


class Server:
    """nbdkit with a set, on a socket next to the set file. `at` is the prefix of commands on its machine."""

    def __init__(self, set_file, *words, at=()):
        self.place = set_file.parent
        self.socket = self.place / "socket"
        self.socket.unlink(missing_ok=True)
        self.pid_file = self.place / "pid"
        self.pid_file.unlink(missing_ok=True)
        with open(self.place / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*at, "nbdkit", "-f", "-U", self.socket, "-P", self.pid_file, PLUGIN, f"set={set_file}", *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def uri(self):
        return f"nbd+unix:///?socket={self.socket}"

    def log(self):
        return (self.place / "log").read_text(errors="replace")

    def wait_until_ready(self, limit_s=LIMIT_S):
        end = time.monotonic() + limit_s
        while not self.pid_file.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"nbdkit does not serve: {self.log()}")
            time.sleep(0.02)
        # nbdkit writes this file before it opens the set. It responds after the set is open.
        try:
            nbd.NBD().connect_unix(str(self.socket))
        except nbd.Error as problem:
            raise AssertionError(f"nbdkit does not serve: {problem}: {self.log()}") from problem
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        self.process.terminate()
        return self.process.wait(LIMIT_S)


class DiskTest(MirrorTest):
    def serve(self, set_file, *words, at=()):
        server = Server(set_file, *words, at=at)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server.wait_until_ready()

    def connect(self, server):
        handle = nbd.NBD()
        handle.connect_unix(str(server.socket))
        return handle

    def run_client(self, *words, status=0, **options):
        result = execute(words, timeout=LIMIT_S, cwd=self.place, **options)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout

    def random_file(self, name, size):
        path = pathlib.Path(self.place / name)
        path.write_bytes(os.urandom(size))
        return path
