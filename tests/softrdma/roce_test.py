# SPDX-License-Identifier: BSD-3-Clause
"""RoCE between two network namespaces, over a relay that loses, repeats and reorders packets. Processes of one
namespace share UDP port 4791. usage: roce_test.py SOFTRDMA PROGRAM-DIRECTORY NO-SEGMENTATION LINGER"""

import contextlib
import ctypes
import fcntl
import itertools
import mmap
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

import roce_packets
from support import enter_own_network, skip, wait_until

SOFTRDMA, PROGRAMS = sys.argv[1:3]
# LD_PRELOAD cannot contain a path with a blank, so it contains links.
LINKS = tempfile.TemporaryDirectory()
NO_SEGMENTATION, LINGER = (os.path.join(LINKS.name, os.path.basename(library)) for library in sys.argv[3:5])
LIMIT_S = 100 # on a hang
BOUND_S = 30 # bound for events after a timeout of 1.5 s on a busy machine
ROCE_PORT = 4791
LEFT, RIGHT = "10.77.0.1", "10.77.0.2"
ETH_P_ALL, ETH_P_IP, PACKET_OUTGOING = 3, 0x800, 4
SOL_PACKET, PACKET_RX_RING = 263, 5
RDMA_PS_TCP, RDMA_PS_UDP, RDMA_UDP_QKEY = 0x0106, 0x0111, 0x01234567
UDADDY_PORT = 7174
MTU_1024 = 3
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(0x10, 0x1b)
READ_REQUEST, ACKNOWLEDGE = 0x0c, 0x11 # opcodes; the next line contains the syndromes of the second
ACK, SEQUENCE_ERROR, INVALID_REQUEST, REMOTE_ACCESS, REMOTE_OPERATIONAL = 0x1f, 0x60, 0x61, 0x62, 0x63
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def is_roce(frame: bytes) -> bool:
    return frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == struct.pack(">H", ROCE_PORT)


def is_roce6(frame: bytes) -> bool:
    return frame[12:14] == b"\x86\xdd" and frame[20] == 17 and frame[56:58] == struct.pack(">H", ROCE_PORT)


def is_management(frame: bytes) -> bool:
    return frame[47:50] == b"\0\0\1" # destination queue pair


def attribute_of(frame: bytes) -> int:
    return int.from_bytes(frame[78:80]) # in the management datagram, which follows BTH and DETH


class Host:
    """A network namespace with one interface, whose other end is in the namespace of this process."""

    numbers = itertools.count()

    def __init__(self, address: str) -> None:
        # The kernel releases a name some time after its namespace ended.
        self.name = name = f"host{next(self.numbers)}"
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

    def add_address(self, address: str) -> None:
        subprocess.run([*self.enter, "ip", "address", "add", f"{address}/64", "dev", self.name, "nodad"], check=True)

    @property
    def enter(self) -> list[str]:
        return ["nsenter", "-t", str(self.process.pid), "-n", "--"]

    def start(self, *program: str, command: tuple[str, ...] = ("run",), **environment: str) -> subprocess.Popen:
        return subprocess.Popen([*self.enter, SOFTRDMA, *command, "--", *program],
                                env={**os.environ, "SOFTRDMA_TRANSPORT": "roce", **environment}, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def listens(self, port: int, transports: int = 1) -> bool:
        """Returns whether a program listens on the port, over that number of transports."""
        with open(f"/proc/{self.process.pid}/net/unix", encoding="ascii") as table:
            roce = any(f"/service/{space << 16 | port:x}/" in line for line in table for space in (RDMA_PS_TCP, RDMA_PS_UDP))
        with open(f"/proc/{self.process.pid}/net/tcp", encoding="ascii") as table:
            tcp = any(f":{port:04X} " in line.split(maxsplit=2)[1] + " " and line.split()[3] == "0A" for line in list(table)[1:])
        return roce + tcp >= transports

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.close()


class Relay(threading.Thread):
    """Joins two hosts. Loses, repeats and delays that share of the RoCE packets, and keeps a copy of each. With
    `renumbers`, gives them identifications and congestion marks, sends congestion notifications to their senders,
    changes a byte in that share of them, and removes the UDP checksums, those of IPv6 packets too."""

    def __init__(self, hosts: list[Host]) -> None:
        super().__init__(daemon=True)
        self.sockets = [host.socket for host in hosts]
        self.share = 0.0
        self.renumbers = False
        self.only_management = False # otherwise each packet may be lost
        self.lost: set[int] = set() # attributes of messages of the connection manager that are all lost
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
                if self.renumbers and is_roce6(frame):
                    self.frames.append(frame)
                    frame = frame[:60] + bytes(2) + frame[62:]
                copies = 1
                if is_roce(frame):
                    self.frames.append(frame)
                    at = self.random.random()
                    if is_management(frame):
                        if attribute_of(frame) in self.lost:
                            continue
                    elif self.only_management:
                        at = 1.0
                    if self.renumbers:
                        to.send(roce_packets.congestion_notification(frame))
                        frame = frame[:15] + b"\x03" + frame[16:]
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

    def messages(self, attribute: int | None = None) -> list[bytes]:
        """Returns the messages of the connection manager, or those with the attribute."""
        return [frame for frame in self.frames if is_management(frame) and attribute in (None, attribute_of(frame))]

    def attributes(self) -> list[int]:
        return [attribute_of(frame) for frame in self.messages()]


class RoceTest(unittest.TestCase):
    def setUp(self) -> None:
        self.hosts = []
        for address in (LEFT, RIGHT):
            self.hosts.append(Host(address))
            self.addCleanup(self.hosts[-1].end)
        self.left, self.right = self.hosts
        self.relay = Relay(self.hosts)
        self.addCleanup(self.relay.end)
        self.port = 18515

    def start(self, host: Host, *program: str, **options: object) -> subprocess.Popen:
        """Starts a program that ends with the test."""
        process = host.start(*program, **options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def start_server(self, port: int, *program: str, **environment: str) -> subprocess.Popen:
        """Starts a program at the right, and waits until it listens."""
        server = self.start(self.right, *program, **environment)
        transports = 2 if environment.get("SOFTRDMA_ROCE") == "listen" else 1
        wait_until(lambda: self.right.listens(port, transports) or server.poll() is not None, "a server")
        return server

    def serve(self, *options: str, program: str = "ibv_rc_pingpong", **environment: str) -> tuple[subprocess.Popen, list[str]]:
        """Starts a server at the right. Returns it and the command of its client."""
        self.port += 1
        command = [program, "-g", "0", "-c", "-p", str(self.port), *options]
        return self.start_server(self.port, *command, **environment), [*command, RIGHT]

    def finish(self, *processes: subprocess.Popen) -> None:
        for process in processes:
            output = process.communicate(timeout=LIMIT_S)[0]
            self.assertEqual(0, process.returncode, output)
            self.assertNotIn("invalid data", output)

    def expect_failure(self, process: subprocess.Popen, pattern: str) -> str:
        """Waits for a program that fails with a message that matches. Returns its output."""
        output = process.communicate(timeout=LIMIT_S)[0]
        self.assertNotEqual(0, process.returncode)
        self.assertRegex(output, pattern)
        return output

    def expect_valid_checksums(self, frames: list[bytes]) -> None:
        for frame in frames:
            self.assertEqual("", roce_packets.wrong_checksum(frame))

    def exchange(self, *options: str) -> None:
        server, client = self.serve(*options, LD_PRELOAD=LINGER)
        self.finish(self.left.start(*client, LD_PRELOAD=LINGER), server)

    def test_packets_are_those_of_the_standard(self) -> None:
        self.exchange("-n", "20", "-s", "10001")
        frames = list(self.relay.frames)
        self.assertGreater(len(frames), 20 * 2 * 10)
        self.expect_valid_checksums(frames)
        rows = self.decode(frames, "infiniband.bth.opcode")
        if not rows:
            return
        opcodes = [int(opcode, 0) for opcode, in rows]
        self.assertEqual(len(frames), len(opcodes))
        self.assertEqual({b"\0\0"}, {frame[18:20] for frame in frames}) # identification: the device of the peer is unknown
        self.assertEqual({0, 1, 2, 17}, set(opcodes)) # SEND first, middle and last, and acknowledgments
        # Addresses, queue pairs and PSNs: some packets are repeated.
        last = {frame[26:34] + frame[47:54] for frame, opcode in zip(frames, opcodes) if opcode == 2}
        self.assertEqual(2 * 20, len(last))

    def identifications_of_long_messages(self, count: int = 5, **environment: str) -> list[set[int]]:
        """Returns the identifications of the packets of each host, after a transfer between two of this device."""
        self.connect("-S", "60000", "-C", str(count), **environment)
        self.expect_valid_checksums(self.relay.frames)
        return [{int.from_bytes(frame[18:20]) for frame in self.relay.frames if frame[26:30] == socket.inet_aton(address)}
                for address in (LEFT, RIGHT)]

    def test_groups_of_packets_are_those_of_the_standard(self) -> None:
        for found in self.identifications_of_long_messages(): # the server reads and writes
            self.assertEqual(set(range(max(found) + 1)), found)
            self.assertGreater(max(found), 16)

    def test_an_interface_without_segmentation(self) -> None:
        self.assertEqual([{0}, {0}], self.identifications_of_long_messages(LD_PRELOAD=NO_SEGMENTATION))

    def test_a_route_that_segments_later(self) -> None:
        environment = {"LD_PRELOAD": NO_SEGMENTATION, "NO_SEGMENTATION_COUNT": "1"}
        for found in self.identifications_of_long_messages(100, **environment): # takes longer than the pause
            self.assertGreater(max(found), 16)

    def test_datagrams_are_those_of_the_standard(self) -> None:
        server, client = self.serve("-n", "20", "-s", "1001", program="ibv_ud_pingpong")
        self.finish(self.left.start(*client), server)
        frames = list(self.relay.frames)
        self.assertGreaterEqual(len(frames), 2 * 20)
        self.expect_valid_checksums(frames)
        for row in self.decode(frames, "infiniband.bth.opcode", "infiniband.deth.q_key", "infiniband.bth.padcnt"):
            self.assertEqual([0x64, 0x11111111, 3], [int(field, 0) for field in row])

    def decode(self, frames: list[bytes], *fields: str) -> list[list[str]]:
        """Returns the fields of each frame according to tshark, or nothing without tshark."""
        with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
            file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
            for frame in frames:
                file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
            file.flush()
            return self.decode_file(file.name, *fields)

    @staticmethod
    def decode_file(name: str, *fields: str) -> list[list[str]]:
        if shutil.which("tshark") is None:
            return []
        options = [word for field in fields for word in ("-e", field)]
        lines = subprocess.run(["tshark", "-r", name, "-T", "fields", *options], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        return [line.split("\t") for line in lines]

    @staticmethod
    def capture(process: subprocess.Popen) -> list[bytes]:
        """Returns the packets of RoCE that the device sends within this host until the process exits. They wait in a ring of
        packet(7), because the buffer of a socket would overflow."""
        block_size, blocks, frame_size = 1 << 16, 1024, 1 << 13
        frames = []
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP)) as s:
            ring_size = block_size * blocks
            s.setsockopt(SOL_PACKET, PACKET_RX_RING, struct.pack("IIII", block_size, blocks, frame_size, ring_size // frame_size))
            with mmap.mmap(s.fileno(), ring_size) as ring:
                s.bind(("lo", ETH_P_IP))
                process.stdin.close()
                process.wait(LIMIT_S)
                for at in range(0, ring_size, frame_size):
                    status, _, size, offset = struct.unpack_from("LIIH", ring, at)
                    if status & 1: # TP_STATUS_USER
                        frames.append(ring[at + offset:at + offset + size])
        return [frame for frame in frames if is_roce(frame) and frame[34:36] == frame[36:38]] # tests send from other ports

    def test_all_packets_are_decoded(self) -> None:
        ip("link", "set", "lo", "mtu", "1500", "gso_max_segs", "1", "up") # path MTU 1024; groups are cut before the capture
        frames = []
        for name in ("data", "post_ex", "native", "windows", "datagram"):
            with tempfile.TemporaryFile("w+") as output:
                program = subprocess.Popen(["sh", "-c", 'read -r line; exec "$@"', "sh", SOFTRDMA, "run", "--",
                                            os.path.join(PROGRAMS, f"softrdma_{name}_test")], stdin=subprocess.PIPE,
                                           env={**os.environ, "SOFTRDMA_TRANSPORT": "roce", "SOFTRDMA_ROCE_SOURCE_PORT": "fixed"},
                                           stdout=output, stderr=output)
                self.addCleanup(program.kill)
                frames += self.capture(program)
                output.seek(0)
                self.assertEqual(0, program.returncode, output.read())
        for frame in frames:
            self.assertEqual(frame[-4:], roce_packets.invariant_crc(frame[14:]), frame.hex())
        # Responses to flush and atomic write are a READ response and an atomic acknowledgment.
        opcodes = {*range(0x15), 0x16, 0x17, 0x1c, 0x1d, 0x64, 0x65}
        self.assertEqual(opcodes, {frame[42] for frame in frames})
        rows = self.decode(frames, "infiniband.bth.opcode", "infiniband.aeth.syndrome", "_ws.malformed")
        if not rows:
            return
        self.assertEqual(len(frames), len(rows))
        self.assertEqual(opcodes, {int(opcode, 0) for opcode, _, _ in rows})
        self.assertNotIn("InfiniBand", " ".join(malformed for _, _, malformed in rows)) # payloads look like other protocols
        syndromes = {int(syndrome, 0) for _, syndrome, _ in rows if syndrome}
        self.assertLessEqual({ACK, INVALID_REQUEST, REMOTE_ACCESS, REMOTE_OPERATIONAL}, syndromes)

    def test_lost_repeated_and_reordered_packets(self) -> None:
        self.relay.share = 0.01
        self.exchange("-n", "40", "-s", "30001")
        self.exchange("-n", "20", "-s", "70001", "-e")
        self.assertGreater(len(self.relay.frames), 20 * 2 * 68)
        self.assertEqual({ACK, SEQUENCE_ERROR}, {frame[54] for frame in self.relay.frames if frame[42] == ACKNOWLEDGE})

    def test_a_packet_of_another_message(self) -> None:
        self.relay.share = 1.0 # the test sends the packets of the client
        server, client = self.serve("-s", "2000")
        client = self.start(self.left, *client)
        wait_until(lambda: len(self.relay.frames) > 1, "a message")
        first, last = self.relay.frames[:2]
        self.assertEqual([0, 2], [first[42], last[42]])
        del self.relay.frames[:]
        for frame in (first, roce_packets.with_identification(last[:42] + b"\x08" + last[43:], 0)): # WRITE last
            self.right.socket.send(frame)
        output = server.communicate(timeout=LIMIT_S)[0]
        self.assertIn("Failed status Work Request Flushed Error", output)
        rejections = {(frame[51:54], frame[54]) for frame in self.relay.frames
                      if frame[26:30] == socket.inet_aton(RIGHT) and frame[54] != ACK}
        self.assertEqual({(last[51:54], INVALID_REQUEST)}, rejections)

    def test_a_late_copy_of_a_read_request(self) -> None:
        server, client = self.serve_rping("-C", "300")
        client = self.start(self.left, *client)
        reads = lambda: [frame for frame in self.relay.frames if frame[42] == READ_REQUEST]
        wait_until(lambda: len(reads()) > 1, "requests")
        copy = reads()[0][:62] + bytes(4) + reads()[0][66:] # its key is no longer valid
        self.left.socket.send(roce_packets.with_identification(copy, 0))
        self.finish(client, server)

    def test_other_identifications_congestion_marks_and_damaged_packets(self) -> None:
        self.relay.share, self.relay.renumbers = 0.01, True
        self.exchange("-n", "40", "-s", "30001")

    def test_packets_of_ipv6_without_checksum(self) -> None:
        for host, address in ((self.left, "fd77::1"), (self.right, "fd77::2")):
            host.add_address(address)
        self.relay.renumbers = True
        self.exchange("-n", "40", "-s", "30001", "-g", "1")
        self.assertGreater(len(self.relay.frames), 40 * 2 * 30)

    def test_processes_share_the_port(self) -> None:
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

    def test_a_process_joins_while_all_others_are_stopped(self) -> None:
        stopped = [self.serve() for _ in range(3)]
        for server, _ in stopped:
            server.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOWAIT)
        self.exchange()
        server, client = self.serve_rping()
        self.finish(self.left.start(*client), server)
        for server, client in stopped:
            server.send_signal(signal.SIGCONT)
            self.finish(self.left.start(*client), server)

    def occupy_port(self, host: Host | None = None) -> None:
        self.occupy("socket.AF_INET", "('', 4791)", host or self.right)

    def occupy(self, family: str, address: str, host: Host) -> None:
        owner = subprocess.Popen([*host.enter, sys.executable, "-c", "import socket, time\n"
                                  f"s = socket.socket({family}, socket.SOCK_DGRAM); s.bind({address}); print(flush=True); time.sleep(1000)"],
                                 stdout=subprocess.PIPE)
        self.addCleanup(owner.communicate)
        self.addCleanup(owner.kill)
        owner.stdout.readline()

    def test_a_port_that_is_in_use(self) -> None:
        self.occupy_port()
        self.expect_failure(self.right.start("ibv_rc_pingpong", "-g", "0"), "(?m)^softrdma: UDP port 4791: in use ")

    def test_a_mailbox_that_is_in_use(self) -> None:
        self.occupy("socket.AF_UNIX", rf"'\0softrdma-roce/{os.geteuid()}/cm/0'", self.right)
        failing, _ = self.serve_rping(SOFTRDMA_LOG="error")
        self.expect_failure(failing, "mailbox of lane 0 of UDP port 4791: not opened: Address already in use")

    def serve_rping(self, *options: str, **environment: str) -> tuple[subprocess.Popen, list[str]]:
        """Starts a server of the connection manager at the right. Returns it and the command of its client."""
        self.port += 1
        server = self.start_server(self.port, "rping", "-s", "-a", RIGHT, "-p", str(self.port), "-C", "5", *options, **environment)
        return server, ["rping", "-c", "-a", RIGHT, "-p", str(self.port), "-C", "5", *options]

    def connect(self, *options: str, **environment: str) -> None:
        """Connects two programs, which end."""
        server, client = self.serve_rping(*options, **environment)
        self.finish(self.left.start(*client, **environment), server)

    def fail_in_time(self, command: list[str], event: str, **environment: str) -> str:
        """Runs a client that must report an event that matches within the time. Returns its output."""
        begin = time.monotonic()
        output = self.expect_failure(self.left.start(*command, **environment), event)
        self.assertLess(time.monotonic() - begin, BOUND_S)
        return output

    def test_messages_of_the_connection_manager_are_those_of_the_standard(self) -> None:
        self.connect()
        frames, attributes = self.relay.messages(), self.relay.attributes()
        self.expect_valid_checksums(frames)
        self.assertLessEqual({REQ, REP, RTU, DREQ, DREP}, set(attributes))
        rows = self.decode(frames, "infiniband.mad.attributeid", "infiniband.mad.mgmtclass", "infiniband.deth.q_key",
                           "infiniband.cm.req.serviceid.dport", "infiniband.cm.req.ip_cm.sip4", "infiniband.cm.req.ip_cm.dip4",
                           "infiniband.cm.req.pppmtu", "infiniband.cm.req.maxcmretr")
        for row, attribute in zip(rows, attributes):
            self.assertEqual([attribute, 7, 0x80010000], [int(field, 0) for field in row[:3]])
            if attribute == REQ:
                self.assertEqual([LEFT, RIGHT], row[4:6])
                self.assertEqual([self.port, MTU_1024, 15], [int(row[i], 0) for i in (3, 6, 7)])

    def connect_until(self, attribute: int) -> tuple[subprocess.Popen, subprocess.Popen, bytes]:
        """Connects a client that does not disconnect. Returns the server, the client and the message of that attribute."""
        server, client = self.serve_rping(SOFTRDMA_LOG="warn")
        client = self.start(self.left, *self.endless(client))
        wait_until(lambda: any(frame[42] == READ_REQUEST for frame in self.relay.frames), "an established connection")
        return server, client, self.relay.messages(attribute)[0]

    def test_a_rejection_of_an_established_connection(self) -> None:
        server, _, ready = self.connect_until(RTU)
        rejection = ready[:78] + REJ.to_bytes(2) + ready[80:94] + b"\x80\0\0\x1c" + ready[98:]
        self.right.socket.send(roce_packets.with_identification(rejection, 0))
        output = server.communicate(timeout=LIMIT_S)[0]
        self.assertIn("connection lost: rejected by the peer", output)
        self.assertIn("DISCONNECT EVENT", output)

    def test_a_request_of_a_connected_queue_pair(self) -> None:
        server, client, request = self.connect_until(REQ)
        self.right.socket.send(roce_packets.with_identification(request[:86] + b"new!" + request[90:], 0))
        output = server.communicate(timeout=LIMIT_S)[0]
        self.assertIn("connection lost: its queue pair requests another one", output)
        self.assertIn("DISCONNECT EVENT", output)
        self.assertIn("DISCONNECT EVENT", client.communicate(timeout=LIMIT_S)[0]) # not lost by this peer
        rejections = self.relay.messages(REJ)
        self.assertEqual([(b"new!", b"\0\x0a")], [(f[90:94], f[96:98]) for f in rejections])

    def test_a_trace_contains_messages_of_the_connection_manager(self) -> None:
        server, client = self.serve_rping()
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "trace.pcapng")
            self.finish(self.left.start(*client, command=("trace", "-w", file)), server)
            rows = self.decode_file(file, "infiniband.mad.attributeid")
        attributes = [int(field, 0) for field, in rows if field]
        if rows:
            # Messages are repeated on a busy machine.
            self.assertEqual([REQ, REP, RTU, DREQ], [key for key in dict.fromkeys(attributes) if key in (REQ, REP, RTU, DREQ)])

    def test_lost_and_repeated_messages_of_the_connection_manager(self) -> None:
        self.relay.share = 0.25
        self.relay.only_management = True
        server = self.start_server(7471, "ucmatose", "-b", RIGHT, "-p", "7471", "-c", "20", "-C", "5")
        self.finish(self.left.start("ucmatose", "-s", RIGHT, "-p", "7471", "-c", "20", "-C", "5"), server)
        attributes = self.relay.attributes()
        self.assertGreater(attributes.count(REQ), 20)
        self.assertNotIn(REJ, attributes)

    def test_an_exit_repeats_a_lost_message(self) -> None:
        self.relay.lost = {DREQ}
        server, client = self.serve_rping()
        client = self.start(self.left, *client) # exits at once after its request to disconnect
        wait_until(lambda: self.relay.attributes().count(DREQ) > 2, "repeated requests to disconnect")
        self.relay.lost = set()
        self.finish(client, server)

    def test_a_peer_that_gets_no_message(self) -> None:
        for lost in (REQ, REP, RTU):
            self.relay.lost = {lost}
            server, client = self.serve_rping(SOFTRDMA_CM_TIMEOUT_MS="1500")
            if lost == RTU: # the server ends the connection
                client = self.start(self.left, *client, SOFTRDMA_CM_TIMEOUT_MS="1500")
                self.assertIn("RDMA_CM_EVENT_UNREACHABLE", server.communicate(timeout=LIMIT_S)[0])
            else: # the server may end it first (reason 4, timeout)
                self.fail_in_time(client, "RDMA_CM_EVENT_(UNREACHABLE|REJECTED, error 4)", SOFTRDMA_CM_TIMEOUT_MS="1500")
        attributes = self.relay.attributes()
        guid = self.relay.messages(REQ)[0][102:110]
        timeouts = [frame for frame in self.relay.messages(REJ) if frame[96:98] == b"\0\4"]
        self.assertEqual({(16, guid)}, {(frame[95], frame[98:106]) for frame in timeouts}) # all that identifies a sender without ID
        self.assertGreater(attributes.count(RTU), 1) # one for each repeated REP
        self.assertLess(len(attributes), 150)

    def test_a_listener_that_begins_between_two_copies_of_a_request(self) -> None:
        _, command = self.serve_rping() # the process that rejects the first copy
        self.relay.lost = {REQ}
        command[command.index(str(self.port))] = str(self.port + 1)
        client = self.start(self.left, *command)
        wait_until(lambda: len(self.relay.messages(REQ)) > 1, "a repeated request")
        first, second = self.relay.messages(REQ)[:2]
        self.right.socket.send(first)
        wait_until(lambda: self.relay.messages(REJ), "a rejection")
        server, _ = self.serve_rping()
        self.relay.lost = set()
        self.right.socket.send(second)
        self.finish(client, server)

    def send_request(self, frame: bytes, number: int, port: int, guid: bytes = b"stranger", mtu: int = MTU_1024) -> None:
        """Sends a changed request to the right: a communication ID, and the port that it is for."""
        frame = frame[:86] + number.to_bytes(4) + frame[90:94] + (RDMA_PS_TCP << 16 | port).to_bytes(8) + guid + \
            frame[110:136] + bytes([mtu << 4 | frame[136] & 0xf]) + frame[137:]
        self.right.socket.send(roce_packets.with_identification(frame, 0))

    def await_answers(self, number: int) -> list[tuple[int, int]]:
        """Waits for answers to the request with that communication ID. Returns their attributes, and reasons to reject it."""
        def answers() -> list[tuple[int, int]]:
            frames = [f for f in self.relay.messages() if f[90:94] == number.to_bytes(4)]
            return [(attribute_of(f), int.from_bytes(f[96:98]) if attribute_of(f) == REJ else 0) for f in frames]
        wait_until(answers, "an answer")
        return answers()

    def test_a_request_waits_for_a_listener(self) -> None:
        self.connect()
        request = self.relay.messages(REQ)[0]
        self.serve_rping() # the process that receives the requests
        self.send_request(request, 1, 1)
        self.assertEqual([(REJ, 8)], self.await_answers(1)) # no program listens
        numbers = itertools.count(2)
        for port in range(20000, 20020):
            server = self.start(self.right, "ucmatose", "-b", RIGHT, "-p", str(port), "-c", "100")
            sent = number = 0
            while not self.right.listens(port):
                self.assertIsNone(server.poll())
                if time.monotonic() - sent > 0.05:
                    sent, number = time.monotonic(), next(numbers)
                    self.send_request(request, number, port)
            if time.monotonic() - sent < 0.3: # otherwise this process has been delayed
                break
        self.assertEqual({(REP, 0)}, set(self.await_answers(number)))

    def test_a_program_listens_at_the_tcp_port_of_its_listener(self) -> None:
        self.serve_rping()
        program = f"import socket; socket.create_server(('{RIGHT}', {self.port}))"
        subprocess.run([*self.right.enter, sys.executable, "-c", program], check=True)

    def test_requests_with_an_invalid_path_mtu(self) -> None:
        self.connect()
        request = self.relay.messages(REQ)[0]
        self.serve_rping()
        for mtu in (0, MTU_1024 + 1, 6, 15):
            self.send_request(request, 100 + mtu, self.port, mtu=mtu)
            self.assertEqual([(REJ, 26)], self.await_answers(100 + mtu))

    def serve_udaddy(self, *options: str, **environment: str) -> tuple[subprocess.Popen, list[str]]:
        """Starts a server at the right that datagram queue pairs find. Returns it and the command of its client."""
        server = self.start_server(UDADDY_PORT, "udaddy", "-b", RIGHT, *options, **environment)
        return server, ["udaddy", "-s", RIGHT, *options]

    def test_resolutions_are_those_of_the_standard(self) -> None:
        server, client = self.serve_udaddy("-C", "5")
        self.finish(self.left.start(*client), server)
        self.finish(*self.within_one_host())
        self.expect_valid_checksums(self.relay.messages())
        self.assertEqual({SIDR_REQ, SIDR_REP}, set(self.relay.attributes()))
        request, reply = [self.relay.messages(attribute)[0][62:-4] for attribute in (SIDR_REQ, SIDR_REP)]
        self.assertEqual(request[8:16] + request[24:28], reply[8:16] + reply[24:28]) # transaction, request ID
        service = (RDMA_PS_UDP << 16 | UDADDY_PORT).to_bytes(8)
        self.assertEqual(b"\xff\xff\0\0" + service + b"\0\x40", request[28:42])
        self.assertEqual(bytes(12) + socket.inet_aton(LEFT) + bytes(12) + socket.inet_aton(RIGHT), request[44:76])
        self.assertEqual(bytes(4), reply[28:32]) # status
        self.assertEqual(service + RDMA_UDP_QKEY.to_bytes(4), reply[36:48])
        packets = [frame for frame in self.relay.frames if not is_management(frame)]
        self.assertIn(reply[32:35], {frame[47:50] for frame in packets})
        self.assertEqual({RDMA_UDP_QKEY.to_bytes(4)}, {frame[54:58] for frame in packets})

    def within_one_host(self) -> tuple[subprocess.Popen, subprocess.Popen]:
        server, client = self.serve_udaddy("-C", "5")
        return self.right.start(*client), server

    def test_lost_and_repeated_resolutions(self) -> None:
        self.relay.share = 0.25
        self.relay.only_management = True
        server, client = self.serve_udaddy("-c", "20", "-C", "5")
        self.finish(self.left.start(*client), server)
        attributes = self.relay.attributes()
        self.assertGreater(attributes.count(SIDR_REQ), 20)
        self.assertGreaterEqual(attributes.count(SIDR_REP), 20)

    def test_messages_to_a_service_of_the_other_kind(self) -> None:
        server, client = self.serve_udaddy("-C", "5")
        _, client_of_other = self.serve_rping()
        self.finish(self.left.start(*client), server)
        self.fail_in_time(self.to_no_listener(client_of_other), "RDMA_CM_EVENT_REJECTED, error 8")
        self.serve_udaddy()
        services = {REQ: RDMA_PS_UDP << 16 | UDADDY_PORT, SIDR_REQ: RDMA_PS_TCP << 16 | self.port}
        frames = {attribute: self.relay.messages(attribute)[0] for attribute in services}
        for attribute, answer, place, reason in ((REQ, REJ, 96, b"\0\x08"), (SIDR_REQ, SIDR_REP, 90, b"\x01\0")):
            frame = frames[attribute][:86] + b"new!" + frames[attribute][90:94] + services[attribute].to_bytes(8) + \
                frames[attribute][102:]
            before = len(self.relay.messages())
            self.right.socket.send(roce_packets.with_identification(frame, 0))
            wait_until(lambda: len(self.relay.messages()) > before, "an answer")
            reply = self.relay.messages()[before]
            self.assertEqual(answer, attribute_of(reply))
            self.assertEqual(reason, reply[place:place + 2])

    def test_resolutions_that_fail(self) -> None:
        self.fail_in_time(["udaddy", "-s", RIGHT], "RDMA_CM_EVENT_UNREACHABLE, error: -110", # no process has the port
                          SOFTRDMA_CM_TIMEOUT_MS="1500")
        self.serve_rping() # its process answers
        self.fail_in_time(["udaddy", "-s", RIGHT], "RDMA_CM_EVENT_UNREACHABLE, error: 1")
        _, client = self.serve_udaddy()
        for lost in (SIDR_REQ, SIDR_REP):
            self.relay.lost = {lost}
            before = len(self.relay.attributes())
            self.fail_in_time(client, "RDMA_CM_EVENT_UNREACHABLE, error: -110", SOFTRDMA_CM_TIMEOUT_MS="1500")
            attributes = self.relay.attributes()[before:]
            self.assertIn(attributes.count(SIDR_REQ), range(3, 17))
            self.assertEqual(attributes.count(SIDR_REP), attributes.count(SIDR_REQ) if lost == SIDR_REP else 0)

    def test_a_stopped_listener_delays_no_other(self) -> None:
        stopped, its_client = self.serve_rping()
        running, client = self.serve_rping()
        stopped.send_signal(signal.SIGSTOP)
        self.fail_in_time(its_client, "RDMA_CM_EVENT_UNREACHABLE", SOFTRDMA_CM_TIMEOUT_MS="1500")
        self.fail_in_time(self.to_no_listener(client), "RDMA_CM_EVENT_REJECTED, error 8")
        self.finish(self.left.start(*client), running)

    @staticmethod
    def to_no_listener(client: list[str]) -> list[str]:
        return [*client[:5], "1", *client[6:]]

    def test_a_killed_server(self) -> None:
        other, client_of_other = self.serve_rping() # answers for the killed process
        command = ["ib_write_bw", "-R", "-p", "7472", "-D", str(LIMIT_S), "-s", "8"]
        server = self.start_server(7472, *command)
        client = self.start(self.left, *command, RIGHT, SOFTRDMA_CM_TIMEOUT_MS="1500")
        wait_until(lambda: len(self.relay.frames) > 1000 or client.poll() is not None, "a connection")
        server.kill()
        self.expect_failure(client, "Failed status 12") # IBV_WC_RETRY_EXC_ERR
        self.finish(self.left.start(*client_of_other), other)

    def test_damaged_and_unknown_messages(self) -> None:
        server, client = self.serve_rping()
        self.fail_in_time(self.to_no_listener(client), "RDMA_CM_EVENT_REJECTED, error 8")
        request = self.relay.messages(REQ)[0]
        request = request[:94] + (RDMA_PS_TCP << 16 | self.port).to_bytes(8) + request[102:]
        # Opcode, low byte of the P_Key, Q_Key, source queue pair, versions, class, method, status and attribute: each makes it
        # invalid.
        fields = [42, 45, *range(54, 58), *range(59, 68), 78, 79]
        chance = random.Random(2)
        for _ in range(3000):
            frame = bytearray(request)
            for _ in range(chance.randrange(8)):
                frame[chance.randrange(86, len(frame))] = chance.randrange(256)
            if chance.random() < 0.2:
                del frame[4 * chance.randrange(16, len(frame) // 4) + 2:]
            else:
                frame[chance.choice(fields)] ^= chance.randrange(1, 256)
            self.right.socket.send(roce_packets.with_identification(bytes(frame), 0))
        self.finish(self.left.start(*client), server)

    def start_automatically(self, command: list[str], **environment: str) -> subprocess.Popen:
        """Starts a program that chooses between TCP and RoCE."""
        return self.start(self.left, *command, SOFTRDMA_TRANSPORT="auto", SOFTRDMA_LOG="info", **environment)

    def transport_of(self, program: subprocess.Popen) -> str:
        """Returns the transport of the queue pair of a program."""
        report = ""

        def is_connected() -> bool:
            nonlocal report
            report = subprocess.run([*self.left.enter, SOFTRDMA, "ps", str(program.pid)], capture_output=True, text=True,
                                    check=False).stdout
            return "state=RTS" in report or program.poll() is not None
        wait_until(is_connected, "a connection")
        return report.partition("transport=")[2].split()[0]

    @staticmethod
    def endless(client: list[str]) -> list[str]:
        return client[:-2]

    def test_the_transport_of_a_connection(self) -> None:
        _, client = self.serve_rping(SOFTRDMA_TRANSPORT="auto")
        self.assertEqual("tcp", self.transport_of(self.start_automatically(self.endless(client))))
        self.assertEqual([], self.relay.frames)
        _, client = self.serve_rping() # over RoCE
        client = self.start_automatically(self.endless(client))
        self.assertEqual("roce", self.transport_of(client))
        client.kill()
        output = client.communicate(timeout=LIMIT_S)[0]
        self.assertIn("TCP connection refused: requested over RoCE", output)
        self.assertRegex(output, "connected to queue pair [0-9]+ over RoCE")

    def test_a_client_follows_a_refusal(self) -> None:
        server, client = self.serve_rping()
        self.finish(self.start_automatically(client), server)
        probe = self.relay.frames[0]
        self.assertEqual("", roce_packets.wrong_checksum(probe))
        self.assertEqual(DREP, attribute_of(probe))
        attributes = self.relay.attributes()
        self.assertLessEqual({REQ, REP, RTU, DREQ}, set(attributes))
        server, client = self.serve_rping()
        self.finish(self.right.start(*client, SOFTRDMA_TRANSPORT="auto"), server) # within a host
        server = self.start_server(7471, "ucmatose", "-b", RIGHT, "-p", "7471", "-c", "20", "-C", "5")
        self.finish(self.start_automatically(["ucmatose", "-s", RIGHT, "-p", "7471", "-c", "20", "-C", "5"]), server)

    def is_refused(self, command: list[str], error: str = "REJECTED, error 8", **environment: str) -> str:
        return self.fail_in_time(command, "RDMA_CM_EVENT_" + error, SOFTRDMA_TRANSPORT="auto", SOFTRDMA_LOG="info", **environment)

    def test_refusals_of_hosts_without_roce(self) -> None:
        client = ["rping", "-c", "-a", RIGHT, "-p", "1", "-C", "5"]
        self.assertNotIn("over RoCE", self.is_refused(client)) # an ICMP message reports the closed port
        self.assertEqual([DREP], [attribute_of(frame) for frame in self.relay.frames])
        many = self.start_automatically(["ucmatose", "-s", RIGHT, "-p", "1", "-c", "20"])
        self.assertNotIn("over RoCE", many.communicate(timeout=LIMIT_S)[0]) # hosts limit the rate of ICMP messages
        self.assertEqual([DREP, DREP], [attribute_of(frame) for frame in self.relay.frames])
        self.relay.share = 1.0 # all packets of RoCE are lost
        self.assertIn("requested over RoCE", self.is_refused(client))
        self.assertIn(REQ, [attribute_of(frame) for frame in self.relay.frames])

    def test_refusals_of_hosts_with_roce(self) -> None:
        server, client = self.serve_rping()
        self.assertIn("requested over RoCE", self.is_refused(self.to_no_listener(client)))
        self.assertIn(REJ, self.relay.attributes())
        before = self.relay.attributes()
        self.is_refused(client, SOFTRDMA_ROCE="off")
        self.assertEqual(before, self.relay.attributes())
        server.send_signal(signal.SIGSTOP)
        self.is_refused(client)

    def test_a_listener_of_both_transports(self) -> None:
        accepting = {"SOFTRDMA_TRANSPORT": "auto", "SOFTRDMA_ROCE": "listen"}
        server, client = self.serve_rping(**accepting)
        self.finish(self.left.start(*client), server)
        self.assertIn(REQ, self.relay.attributes())
        requests = self.relay.attributes().count(REQ)
        server, client = self.serve_rping(**accepting)
        self.finish(self.start_automatically(client), server)
        self.assertEqual(requests, self.relay.attributes().count(REQ))
        self.occupy_port()
        failing, _ = self.serve_rping(**accepting)
        self.expect_failure(failing, "(?m)^softrdma: UDP port 4791: in use ")
        server, client = self.serve_rping(SOFTRDMA_TRANSPORT="auto")
        self.finish(self.start_automatically(client), server)

    def test_a_client_without_the_port(self) -> None:
        _, client = self.serve_rping()
        self.occupy_port(self.left)
        self.assertIn("UDP port 4791: in use ", self.is_refused(client))

    def test_hosts_that_do_not_refuse(self) -> None:
        stopped, client = self.serve_rping(SOFTRDMA_TRANSPORT="auto")
        stopped.send_signal(signal.SIGSTOP)
        self.is_refused(client, "UNREACHABLE, error -110", SOFTRDMA_CM_TIMEOUT_MS="1500")
        self.relay.end()
        self.is_refused(client, "UNREACHABLE, error -110", SOFTRDMA_CM_TIMEOUT_MS="1500")
        self.assertEqual([], self.relay.frames)

    def classes_of(self, *options: str) -> set[tuple[bool, int]]:
        """Returns the traffic classes of the packets of a transfer that match, and whether they are management packets."""
        self.transfer(*options)
        return {(is_management(frame), frame[15]) for frame in self.relay.frames}

    def transfer(self, *options: str, **environment: str) -> None:
        """Sends a few messages. The relay has only their packets afterwards."""
        del self.relay.frames[:]
        self.port += 1
        port = self.port
        command = ["ib_send_bw", "-n", "20", "-s", "100", "-p", str(port), *options]
        server = self.start_server(port, *command, **environment)
        self.finish(self.left.start(*command, RIGHT, **environment), server)
        self.expect_valid_checksums(self.relay.frames)

    def test_source_ports(self) -> None:
        for options in (("-x", "0", "-q", "16"), ("-x", "0", "-c", "UD"), ("-R",)):
            self.transfer(*options)
            ports: dict[bytes, set[int]] = {} # keys: addresses and destination queue pair
            for frame in self.relay.frames:
                port = int.from_bytes(frame[34:36])
                if is_management(frame):
                    self.assertEqual(ROCE_PORT, port)
                else:
                    self.assertGreaterEqual(port, 0xc000)
                    ports.setdefault(frame[26:34] + frame[47:50], set()).add(port)
            for of_destination in ports.values(): # the order of its packets is kept
                self.assertEqual(1, len(of_destination))
            if "-q" in options:
                self.assertEqual(2 * 16, len(ports))
                for address in (LEFT, RIGHT):
                    sent = [p for name, p in ports.items() if name[:4] == socket.inet_aton(address)]
                    self.assertGreater(len(set().union(*sent)), 3)
        self.transfer("-x", "0", "-q", "2", SOFTRDMA_ROCE_SOURCE_PORT="fixed")
        self.assertEqual({ROCE_PORT}, {int.from_bytes(frame[34:36]) for frame in self.relay.frames})

    def test_traffic_classes(self) -> None:
        self.assertEqual({(False, 0)}, self.classes_of("-x", "0"))
        self.assertEqual({(False, 0xb8)}, self.classes_of("-x", "0", "--tclass=186")) # the bits of ECN are cleared
        self.assertEqual({(False, 0xb8)}, self.classes_of("-x", "0", "--tclass=186", "-c", "UD"))
        classes = self.classes_of("-R", "-T", "186")
        self.assertLessEqual({(False, 0xb8), (True, 0xb8)}, classes)
        for row in self.decode(self.relay.messages(REQ), "infiniband.cm.req.prim_tfcclass", "ip.dsfield"):
            self.assertIn([int(field, 0) for field in row], ([0, 0], [186, 0xb8])) # perftest has a control connection

    def test_a_path_mtu_that_does_not_fit(self) -> None:
        _, client = self.serve("-m", "1024")
        self.expect_failure(self.left.start(*client[:-1], "-m", "2048", client[-1], SOFTRDMA_LOG="error"),
                            r"path MTU 2048: larger than the MTU of the interface permits \(use at most 1024\)")


if __name__ == "__main__":
    if shutil.which("ibv_rc_pingpong") is None or not enter_own_network():
        skip("no network namespace can be created, or ibv_rc_pingpong is not installed")
    for target, link in zip(sys.argv[3:5], (NO_SEGMENTATION, LINGER)):
        os.symlink(target, link)
    with contextlib.suppress(PermissionError):
        os.nice(-10) # beside other tests the relay would be slower than the retry limit permits
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
