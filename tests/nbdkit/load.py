# SPDX-License-Identifier: BSD-3-Clause
"""Load of the fault tests: clients that write, and an oracle that knows which writes were flushed.

NBDKIT_ROUNDS: number of rounds, default 4. NBDKIT_SEED: seed of the random numbers."""

import os
import random
import shutil
import socket
import subprocess
import threading
import time

import nbd

from server import LIMIT_S, SECTOR, DiskTest
from support import listens, wait_until

ROUNDS = int(os.environ.get("NBDKIT_ROUNDS", "4"))
SEED = int(os.environ.get("NBDKIT_SEED", str(random.SystemRandom().randrange(1 << 32))))
WRITERS = 3
SECTORS = 2048


class Oracle:
    """Possible contents of each sector: the last flushed value and all values written after it."""

    def __init__(self):
        self.possible = [[0] for _ in range(SECTORS)]
        self.next_value = 1
        self.lock = threading.Lock()

    def value(self):
        with self.lock:
            self.next_value += 1
            return self.next_value

    def check(self, handle):
        content = handle.pread(SECTORS * SECTOR, 0)
        for sector in range(SECTORS):
            words = memoryview(content)[sector * SECTOR:(sector + 1) * SECTOR].cast("Q")
            if len(set(words)) != 1:
                raise AssertionError(f"sector {sector} is torn: {sorted(set(words))}")
            if words[0] not in self.possible[sector]:
                raise AssertionError(f"sector {sector}: {words[0]} instead of one of {self.possible[sector]}")
            self.possible[sector] = [words[0]]


class Writer(threading.Thread):
    """A client with its own connection that writes to every third sector until its server fails."""

    def __init__(self, oracle, handle, number, rng):
        super().__init__(daemon=True)
        self.oracle, self.handle, self.number, self.rng = oracle, handle, number, rng
        self.ending = False
        self.count = 0

    def run(self):
        dirty = set()
        try:
            while not self.ending:
                sector = self.rng.randrange(SECTORS // WRITERS) * WRITERS + self.number
                value = self.oracle.value()
                durable = self.rng.random() < 0.2
                self.oracle.possible[sector].append(value)
                self.handle.pwrite(value.to_bytes(8, "little") * (SECTOR // 8), sector * SECTOR,
                                   nbd.CMD_FLAG_FUA if durable else 0)
                dirty.add(sector)
                self.count += 1
                if durable:
                    self.settle({sector})
                    dirty.discard(sector)
                elif self.rng.random() < 0.05:
                    self.handle.flush()
                    self.settle(dirty)
                    dirty.clear()
        except nbd.Error:
            pass

    def settle(self, sectors):
        for sector in sectors:
            del self.oracle.possible[sector][:-1]


class Etcd:
    """An etcd cluster with one member."""

    def __init__(self, place, address="127.0.0.1"):
        self.url, peers = (f"http://{address}:{port}" for port in free_ports(2, address))
        with open(f"{place}/etcd-log", "ab") as log:
            self.process = subprocess.Popen(
                ["etcd", "--data-dir", f"{place}/etcd", "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                 "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        port = int(self.url.rpartition(":")[2])
        wait_until(lambda: listens(port) or self.process.poll() is not None, "etcd", LIMIT_S)

    def kill(self):
        self.process.kill()
        self.process.wait()


def free_ports(count, address):
    sockets = [socket.create_server((address, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class LoadTest(DiskTest):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        self.oracle = Oracle()

    def etcd(self, address="127.0.0.1"):
        """Returns the line of a set file for an arbiter that this test starts."""
        if shutil.which("etcd") is None:
            self.skipTest("etcd not found (install etcd-server)")
        etcd = Etcd(self.place, address)
        self.addCleanup(etcd.kill)
        return f"arbiter etcd {etcd.url} ttl 2"

    def load(self, server):
        writers = [Writer(self.oracle, self.connect(server), i, random.Random(self.rng.random())) for i in range(WRITERS)]
        for writer in writers:
            writer.start()
        return writers

    def finish(self, writers):
        for writer in writers:
            writer.ending = True
            writer.join(LIMIT_S)
            self.assertFalse(writer.is_alive())

    def until(self, condition, text):
        end = time.monotonic() + LIMIT_S
        while not condition():
            self.assertLess(time.monotonic(), end, text())
            time.sleep(0.02)

    def promote(self, set_file, **options):
        """Serves the set. etcd rejects other machines while the lease of the last writer is valid."""
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                return self.serve(set_file, **options)
            except AssertionError as problem:
                if "lease" not in str(problem).splitlines()[-1] or time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def no_flushed_write_is_lost(self, settings, targets, at=((), ())):
        """In each round a fault hits the disk while clients write. Then the disk must contain each flushed write. After a
        fault of the writer, the other machine serves the disk. `at` are the prefixes of commands on the machines."""
        print(f"seed {SEED}, {ROUNDS} rounds, {settings}")
        places = [self.host(copy, *targets, more=settings) for copy in (0, 5)]
        self.done("create", places[0])
        here, written = 0, 0
        server = self.promote(places[here], at=at[here])
        for number in range(ROUNDS):
            fault = self.faults[number] if number < len(self.faults) else self.rng.choice(self.faults)
            writers = self.load(server)
            time.sleep(self.rng.uniform(0.02, 0.2))
            if fault.endswith("target"):
                joined = server.log().count(" is in sync")
                self.lose_target(server, writers)
                self.until(lambda: server.log().count(" is in sync") > joined, server.log)
            else:
                self.strike(fault, server, here)
                old, here = server, 1 - here
                server = self.promote(places[here], at=at[here])
                self.heal(fault, old, 1 - here)
                if fault in ("stop writer", "cut writer"):
                    old.process.wait(LIMIT_S)
                    self.assertIn("disk failed", old.log())
            self.finish(writers)
            self.check(server, writers, number, fault)
            written += sum(writer.count for writer in writers)
        self.assertGreater(written, 0)
        print(f"{written} writes acknowledged")

    def check(self, server, writers, number, fault):
        for writer in writers:
            writer.handle = None
        try:
            self.oracle.check(self.connect(server))
        except AssertionError as problem:
            raise AssertionError(f"round {number}, seed {SEED}, {fault}: {problem}") from problem
