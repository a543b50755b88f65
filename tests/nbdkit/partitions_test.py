#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of network partitions under load. Each machine is a network namespace on a bridge. Its link is cut while a client
writes to its disk, until the other machines have continued without it."""

import subprocess
import unittest

from load import LoadTest
from support import enter_own_network, skip

NETWORK = "10.78.0"
BRIDGE = f"{NETWORK}.254"


class Machine:
    """A network namespace with a link to the bridge. The namespace lives as long as this process."""

    def __init__(self, number):
        self.address, self.link = f"{NETWORK}.{number}", f"machine{number}"
        self.holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo ready; exec cat"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.at = ["nsenter", "-t", str(self.holder.pid), "-n", "--"]

    def connect(self):
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", str(self.holder.pid))
        ip("link", "set", self.link, "master", "bridge", "up")
        for words in ("link set lo up", f"address add {self.address}/24 dev eth0", "link set eth0 up"):
            ip(*words.split(), at=self.at)

    def cut(self):
        ip("link", "set", self.link, "down")

    def join(self):
        ip("link", "set", self.link, "up")

    def end(self):
        """The kernel removes the namespace asynchronously, so the link could still exist for the next test."""
        subprocess.run(["ip", "link", "delete", self.link], check=False, stderr=subprocess.DEVNULL)
        self.holder.communicate()


def ip(*words, at=()):
    subprocess.run([*at, "ip", *words], check=True)


class Partitions(LoadTest):
    faults = ("cut writer", "cut target")

    def setUp(self):
        super().setUp()
        ip("link", "add", "bridge", "type", "bridge")
        self.addCleanup(ip, "link", "delete", "bridge")
        ip("address", "add", f"{BRIDGE}/24", "dev", "bridge")
        ip("link", "set", "bridge", "up")

    def machine(self, number):
        machine = Machine(number)
        self.addCleanup(machine.end)
        machine.connect()
        return machine

    def test_no_flushed_write_is_lost_with_the_operator(self):
        self.partition("arbiter operator")

    def test_no_flushed_write_is_lost_with_etcd(self):
        self.partition(self.etcd(BRIDGE))

    def partition(self, arbiter):
        self.hosts, self.stores = ([self.machine(number) for number in numbers] for numbers in ((1, 2), (3, 4)))
        targets = [self.target(store.address, store.at) for store in self.stores]
        self.no_flushed_write_is_lost(f"timeouts 1000 20000\n{arbiter}", targets, [host.at for host in self.hosts])

    def lose_target(self, server, writers):
        """The target leaves the set while its link is cut, the writers continue, and the target then returns."""
        store, evicted = self.rng.choice(self.stores), server.log().count(" left the set")
        store.cut()
        self.until(lambda: server.log().count(" left the set") > evicted, server.log)
        before = sum(writer.count for writer in writers)
        self.until(lambda: sum(writer.count for writer in writers) > before + 100, server.log)
        store.join()

    def strike(self, _, __, here):
        self.hosts[here].cut()

    def heal(self, _, __, there):
        self.hosts[there].join()


if __name__ == "__main__":
    if not enter_own_network():
        skip("no network namespace can be created here")
    unittest.main()
