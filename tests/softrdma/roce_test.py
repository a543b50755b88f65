# SPDX-License-Identifier: BSD-3-Clause
"""RoCE between two network namespaces, over a relay that loses, repeats and reorders packets. Processes of one
namespace share UDP port 4791. usage: roce_test.py SOFTRDMA"""

import ctypes
import fcntl
import itertools
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import own_network
import roce_packets

SOFTRDMA = sys.argv[1]
LIMIT_S = 100 # on a hang
ROCE_PORT = 4791
LEFT, RIGHT = "10.77.0.1", "10.77.0.2"
ETH_P_ALL, PACKET_OUTGOING = 3, 4
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def wait_until(is_true, what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_true():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {LIMIT_S} s")
        time.sleep(0.02)


class Host:
    """A network namespace with one interface, whose other end is in the namespace of this process."""

    numbers = itertools.count()

    def __init__(self, address: str) -> None:
        name = f"host{next(self.numbers)}" # the kernel releases a name some time after its namespace ended
        self.process = subprocess.Popen(["unshare", "-n", "sleep", str(3 * LIMIT_S)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        own = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{self.process.pid}/ns/net") != own, "a network namespace")
        ip("link", "add", f"{name}_", "type", "veth", "peer", "name", name)
        self.complete_checksums(name)
        ip("link", "set", name, "netns", str(self.process.pid))
        ip("link", "set", f"{name}_", "up")
        for words in ("link set lo up", f"address add {address}/24 dev {name}", f"link set {name} up"):
            subprocess.run([*self.enter, "ip", *words.split()], check=True)
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.bind((f"{name}_", ETH_P_ALL))

    @staticmethod
    def complete_checksums(interface: str) -> None:
        """Disables checksum offload: a veth interface leaves checksums out, which only the kernel can complete."""
        buffer = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_STXCSUM, 0))
        request = struct.pack("16sQ", interface.encode(), ctypes.addressof(buffer)) + bytes(16)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            fcntl.ioctl(s, SIOCETHTOOL, request)

    @property
    def enter(self) -> list[str]:
        return ["nsenter", "-t", str(self.process.pid), "-n", "--"]

    def start(self, *command: str, **environment: str) -> subprocess.Popen:
        return subprocess.Popen([*self.enter, SOFTRDMA, "run", "--", *command],
                                env={**os.environ, "SOFTRDMA_TRANSPORT": "roce", **environment}, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def listens(self, port: int) -> bool:
        with open(f"/proc/{self.process.pid}/net/tcp", encoding="ascii") as table:
            return any(f":{port:04X} " in line.split(maxsplit=2)[1] + " " and line.split()[3] == "0A" for line in list(table)[1:])

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.close()


class Relay(threading.Thread):
    """Joins two hosts. Loses, repeats and delays that share of the RoCE packets, and keeps a copy of each. With
    `renumbers`, gives them identifications as other devices do, and changes a byte in that share of them."""

    def __init__(self, hosts: list[Host], share: float, renumbers: bool) -> None:
        super().__init__(daemon=True)
        self.sockets = [host.socket for host in hosts]
        self.share = share
        self.renumbers = renumbers
        self.random = random.Random(1)
        self.frames: list[bytes] = []
        self.ends = False
        self.start()

    def run(self) -> None:
        late: list[tuple[socket.socket, bytes]] = []
        while not self.ends:
            for ready in select.select(self.sockets, [], [], 0.01)[0]:
                frame, origin = ready.recvfrom(65536)
                if origin[2] == PACKET_OUTGOING:
                    continue
                to = self.sockets[1 - self.sockets.index(ready)]
                copies = 1
                if frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == struct.pack(">H", ROCE_PORT):
                    self.frames.append(frame)
                    at = self.random.random()
                    if self.renumbers:
                        frame = roce_packets.with_identification(frame, self.random.randrange(1 << 16))
                        if self.random.random() < self.share:
                            place = self.random.randrange(42, len(frame))
                            frame = frame[:place] + bytes([frame[place] ^ 1 << self.random.randrange(8)]) + frame[place + 1:]
                    copies = 0 if at < self.share else 2 if at < 2 * self.share else 1
                    if 2 * self.share <= at < 3 * self.share:
                        late.append((to, frame))
                        continue
                for _ in range(copies):
                    to.send(frame)
                if late and self.random.random() < 0.3:
                    late[0][0].send(late.pop(0)[1])
            while late and not select.select(self.sockets, [], [], 0)[0]:
                late[0][0].send(late.pop(0)[1])

    def end(self) -> None:
        self.ends = True
        self.join()


class RoceTest(unittest.TestCase):
    def setUp(self) -> None:
        self.hosts = []
        for address in (LEFT, RIGHT):
            self.hosts.append(Host(address))
            self.addCleanup(self.hosts[-1].end)
        self.left, self.right = self.hosts
        self.port = 18515

    def relay(self, share: float = 0.0, renumbers: bool = False) -> Relay:
        relay = Relay(self.hosts, share, renumbers)
        self.addCleanup(relay.end)
        return relay

    def serve(self, *options: str) -> tuple[subprocess.Popen, list[str]]:
        """Starts a server at the right. Returns it and the command of its client."""
        self.port += 1
        command = ["ibv_rc_pingpong", "-g", "0", "-c", "-p", str(self.port), *options]
        server = self.right.start(*command)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        port = self.port
        wait_until(lambda: self.right.listens(port) or server.poll() is not None, "a server")
        return server, [*command, RIGHT]

    def finish(self, *processes: subprocess.Popen) -> None:
        for process in processes:
            output = process.communicate(timeout=LIMIT_S)[0]
            self.assertEqual(0, process.returncode, output)
            self.assertNotIn("invalid data", output)

    def exchange(self, *options: str) -> None:
        server, client = self.serve(*options)
        self.finish(self.left.start(*client), server)

    def test_packets_are_those_of_the_standard(self) -> None:
        relay = self.relay()
        self.exchange("-n", "20", "-s", "10001")
        frames = list(relay.frames)
        self.assertGreater(len(frames), 20 * 2 * 10)
        for frame in frames:
            self.assertEqual("", roce_packets.wrong_checksum(frame))
        if shutil.which("tshark") is None:
            return
        with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
            file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
            for frame in frames:
                file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
            file.flush()
            lines = subprocess.run(["tshark", "-r", file.name, "-T", "fields", "-e", "infiniband.bth.opcode"], check=True,
                                   capture_output=True, text=True).stdout.splitlines()
        opcodes = [int(line, 0) for line in lines]
        self.assertEqual(len(frames), len(opcodes))
        self.assertEqual({0, 1, 2, 17}, set(opcodes)) # SEND first, middle and last, and acknowledgments
        self.assertEqual(2 * 20, opcodes.count(2))

    def test_lost_repeated_and_reordered_packets(self) -> None:
        relay = self.relay(0.01)
        self.exchange("-n", "40", "-s", "30001")
        self.exchange("-n", "20", "-s", "70001", "-e")
        self.assertGreater(len(relay.frames), 20 * 2 * 68)

    def test_other_identifications_and_damaged_packets(self) -> None:
        self.relay(0.01, renumbers=True)
        self.exchange("-n", "40", "-s", "30001")

    def test_processes_share_the_port(self) -> None:
        self.relay()
        first, _ = self.serve()
        others = [self.serve() for _ in range(3)]
        (second, client), (third, client_of_third), (fourth, client_of_fourth) = others
        first.send_signal(signal.SIGSTOP)
        self.finish(self.left.start(*client), second)
        self.exchange() # a process that joins now gets the sockets from one that is not stopped
        first.kill()
        self.finish(self.left.start(*client_of_third), third)
        self.exchange()
        self.finish(self.left.start(*client_of_fourth), fourth)
        self.exchange() # no process has the port

    def test_a_port_that_is_in_use(self) -> None:
        owner = subprocess.Popen([*self.right.enter, sys.executable, "-c", "import socket, time\n"
                                  "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 4791)); print(flush=True); time.sleep(1000)"],
                                 stdout=subprocess.PIPE)
        self.addCleanup(owner.communicate)
        self.addCleanup(owner.kill)
        owner.stdout.readline()
        failing = self.right.start("ibv_rc_pingpong", "-g", "0")
        output = failing.communicate(timeout=LIMIT_S)[0]
        self.assertNotEqual(0, failing.returncode)
        self.assertRegex(output, "(?m)^softrdma: UDP port 4791: in use ")

    def test_facilities_that_are_not_supported(self) -> None:
        for command in (["udaddy", "-b", RIGHT], ["ibv_ud_pingpong", "-g", "0"]):
            failing = self.right.start(*command)
            output = failing.communicate(timeout=LIMIT_S)[0]
            self.assertNotEqual(0, failing.returncode)
            self.assertRegex(output, "(?m)^softrdma: SOFTRDMA_TRANSPORT=roce: .*: not supported")

    def test_a_path_mtu_that_does_not_fit(self) -> None:
        self.relay()
        _, client = self.serve("-m", "1024")
        failing = self.left.start(*client[:-1], "-m", "2048", client[-1], SOFTRDMA_LOG="error")
        output = failing.communicate(timeout=LIMIT_S)[0]
        self.assertNotEqual(0, failing.returncode)
        self.assertIn("path MTU 2048: larger than the MTU of the interface permits (use at most 1024)", output)


if __name__ == "__main__":
    if shutil.which("ibv_rc_pingpong") is None or not own_network.enter():
        print("skipped: no network namespace can be created, or ibv_rc_pingpong is not installed")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
