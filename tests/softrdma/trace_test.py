# SPDX-License-Identifier: BSD-3-Clause
"""Checks the output of softrdma trace with tshark and against the specification. usage: trace_test.py SOFTRDMA PROGRAM-DIRECTORY"""

import collections
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import roce_packets
from support import directory, skip

SOFTRDMA, PROGRAMS = sys.argv[1:3]
LIMIT_S = 600  # limit of each program
FIELDS = ("infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.bth.destqp", "infiniband.bth.a", "frame.packet_flags_direction", "udp.dstport")
INBOUND, OUTBOUND = 1, 2
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY = 6, 7, 8, 10
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK = 12, 13, 14, 15, 16, 17
ATOMIC_ACK, COMPARE_SWAP, FETCH_ADD, FLUSH, ATOMIC_WRITE = 18, 19, 20, 28, 29
DATAGRAM, DATAGRAM_WITH_IMMEDIATE = 100, 101

Packet = collections.namedtuple("Packet", "opcode psn qp asks direction port")


def number(text: str) -> int:
    return int(text, 0) if text else -1


def run(command: list[str], **environment: str) -> str:
    """Returns the output of the program. Raises AssertionError with the output if it hangs or fails."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=out, stderr=err)
        try:
            code = str(process.wait(LIMIT_S))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = f"none after {LIMIT_S} s"
        out.seek(0)
        err.seek(0)
        printed = out.read()
        if code != "0":
            raise AssertionError(f"{' '.join(command)}: exit code {code}\n{printed}{err.read()}")
    return printed


class TraceTest(unittest.TestCase):
    def setUp(self) -> None:
        self.file = str(directory(self) / "out.pcap")

    def trace(self, program: str, **environment: str) -> None:
        run([SOFTRDMA, "trace", "-w", self.file, "--", os.path.join(PROGRAMS, program)], **environment)

    def packets(self) -> list[Packet]:
        command = ["tshark", "-r", self.file, "-T", "fields"]
        for field in FIELDS:
            command += ["-e", field]
        lines = run(command).splitlines()
        packets = [Packet(*map(number, (line + "\t" * len(FIELDS)).split("\t")[:len(FIELDS)])) for line in lines]
        self.assertTrue(packets)
        for packet in packets:
            self.assertEqual(4791, packet.port)
            self.assertGreaterEqual(packet.opcode, 0, "a packet that tshark does not decode as RoCE")
        return packets

    def frames(self) -> list[bytes]:
        with open(self.file, "rb") as file:
            data = file.read()
        frames, at = [], 0
        while at < len(data):
            kind, length = struct.unpack_from("<II", data, at)
            if kind == 6:
                size, = struct.unpack_from("<I", data, at + 20)
                frames.append(data[at + 28:at + 28 + size])
            at += length
        return frames

    def test_native_operations_are_all_there(self) -> None:
        self.trace("softrdma_native_test", SOFTRDMA_TRANSPORT="tcp")
        packets = self.packets()
        count = collections.Counter((packet.opcode, packet.direction) for packet in packets)
        for opcode in (WRITE_ONLY, ACK, READ_ONLY, ATOMIC_ACK, COMPARE_SWAP, FETCH_ADD, FLUSH, ATOMIC_WRITE):
            self.assertGreater(count[opcode, OUTBOUND], 0, opcode)
            self.assertLessEqual(count[opcode, INBOUND], count[opcode, OUTBOUND], opcode)
        self.check_checksums()

    def test_long_messages_are_segmented_and_numbered(self) -> None:
        self.trace("softrdma_data_test", SOFTRDMA_TRANSPORT="tcp")
        for family in ((WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST), (READ_FIRST, READ_MIDDLE, READ_LAST)):
            next_psn: dict[int, int] = {}
            seen = 0
            for packet in self.packets():
                if packet.direction != OUTBOUND or packet.opcode not in family:
                    continue
                if packet.opcode != family[0]:
                    self.assertEqual(next_psn[packet.qp], packet.psn)
                    seen += 1
                next_psn[packet.qp] = (packet.psn + 1) & 0xffffff
            self.assertGreater(seen, 100)

    def test_only_requests_for_an_acknowledgment_get_one(self) -> None:
        self.trace("softrdma_answers_test", SOFTRDMA_TRANSPORT="tcp")
        count = collections.Counter((packet.opcode, bool(packet.asks)) for packet in self.packets() if packet.direction == OUTBOUND)
        asking = count[WRITE_ONLY, True] + count[READ_REQUEST, True]
        also_wanted = 2  # extra acknowledgment request if the expected one did not follow; hardware has no such packet
        self.assertGreater(count[WRITE_ONLY, False], 10 * asking)
        self.assertLessEqual(count[ACK, False], asking + also_wanted)

    def test_requests_in_shared_memory_appear_as_packets(self) -> None:
        self.trace("softrdma_data_test", SOFTRDMA_TRANSPORT="shm")
        count = collections.Counter(packet.opcode for packet in self.packets())
        for opcode in (WRITE_ONLY, WRITE_FIRST, WRITE_MIDDLE, READ_REQUEST, READ_MIDDLE, ACK):
            self.assertGreater(count[opcode], 0, opcode)

    def test_datagrams_have_their_header(self) -> None:
        for path in ("tcp", "auto"):
            self.trace("softrdma_datagram_test", SOFTRDMA_TRANSPORT=path)
            count = collections.Counter((packet.opcode, packet.direction) for packet in self.packets())
            for opcode in (DATAGRAM, DATAGRAM_WITH_IMMEDIATE):
                self.assertGreater(count[opcode, OUTBOUND], 0, path)
                self.assertGreater(count[opcode, INBOUND], 0, path)
            headers = run(["tshark", "-r", self.file, "-Y", "infiniband.bth.opcode == 100", "-T", "fields",
                           "-e", "infiniband.deth.q_key", "-e", "infiniband.deth.srcqp"]).split()
            self.assertIn(0x1234, map(number, headers[::2]))
            self.assertNotIn(0, map(number, headers[1::2]))
            self.check_checksums()

    def check_checksums(self) -> None:
        frames = self.frames()
        self.assertTrue(frames)
        for frame in frames:
            self.assertEqual("", roce_packets.wrong_checksum(frame))

    def test_a_file_that_cannot_be_written(self) -> None:
        result = subprocess.run([SOFTRDMA, "trace", "-w", "/nonexistent/out.pcap", "true"], capture_output=True, text=True)
        self.assertEqual(1, result.returncode)
        self.assertRegex(result.stderr, r"^softrdma: cannot write '/nonexistent/out.pcap': .*\n$")
        result = subprocess.run([SOFTRDMA, "trace", "true"], capture_output=True, text=True)
        self.assertEqual(2, result.returncode)


if __name__ == "__main__":
    if shutil.which("tshark") is None:
        skip("tshark is not installed")
    unittest.main(argv=sys.argv[:1], verbosity=2)
