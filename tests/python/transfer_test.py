# SPDX-License-Identifier: BSD-3-Clause
"""Data transfers of the Python package on the software device."""

import array
import mmap
import os
import select
import tempfile
import unittest

import rpma
from rpma import Completions, ConnectionConfig, ErrorCode, FlushType, Opcode, Usage
from support import ADDR, ALL, LIMIT_S, SIZE, Test, execute


class Transfers(Test):
    def test_writes_flushes_and_reads_back(self):
        pair = self.pair()
        pair.client_memory[:5] = b"bytes"
        pair.client.write(pair.remote, 100, pair.client_region, 0, 5, Completions.ON_ERROR, 1)
        pair.client.flush(pair.remote, 100, 5, FlushType.PERSISTENT, context=2)
        completion = self.completed(pair.client)
        self.assertEqual(2, completion.op_context)
        self.assertEqual(Opcode.FLUSH if pair.client.has_native_flush else Opcode.RDMA_READ, completion.opcode)
        self.assertEqual(pair.client.qp_num, completion.qp_num)
        self.assertEqual(b"bytes", pair.server_memory[100:105])
        pair.client.read(pair.client_region, 200, pair.remote, 100, 5, context=2**64 - 1)
        self.assertEqual(2**64 - 1, self.completed(pair.client).op_context)
        self.assertEqual(b"bytes", pair.client_memory[200:205])
        self.assertEqual([], pair.client.cq.poll(10))
        counted = pair.client.counters
        self.assertEqual((1, 5, 0), (counted.reads, counted.read_bytes, counted.sends))

    def test_without_a_length_the_rest_of_the_region_is_used(self):
        pair = self.pair()
        pair.client_memory[:] = b"\x05" * SIZE
        pair.client.write(pair.remote, 10, pair.client_region, 10)
        self.completed(pair.client)
        self.assertEqual(bytes(10) + b"\x05" * (SIZE - 10), pair.server_memory)

    def test_writes_atomically(self):
        pair = self.pair()
        pair.client.atomic_write(pair.remote, 8, b"12345678")
        self.completed(pair.client)
        self.assertEqual(b"\0" * 8 + b"12345678\0", pair.server_memory[:17])
        for wrong in (b"", b"1234567", b"123456789"):
            with self.assert_fails(ErrorCode.INVAL, "8 bytes"):
                pair.client.atomic_write(pair.remote, 8, wrong)
        with self.assert_fails(ErrorCode.INVAL):
            pair.client.atomic_write(pair.remote, 4, b"12345678")

    def test_sends_messages_and_numbers(self):
        pair = self.pair(prepare=lambda request, region: request.recv(region, 0, 64, 7))
        pair.client_memory[:4] = b"ping"
        pair.client.send(pair.client_region, 0, 4)
        received = self.completed(pair.server)
        self.assertEqual((7, Opcode.RECV, 4, None), (received.op_context, received.opcode, received.byte_len, received.imm))
        self.assertEqual(b"ping", pair.server_memory[:4])
        pair.server.recv(None)
        pair.client.send(None, imm=0x01020304)
        self.assertEqual((0x01020304, 0), (lambda done: (done.imm, done.byte_len))(self.completed(pair.server)))
        pair.server.recv(None, context=8)
        pair.client.write(pair.remote, 50, pair.client_region, 0, 4, imm=2**32 - 1)
        received = self.completed(pair.server)
        self.assertEqual((8, Opcode.RECV_RDMA_WITH_IMM, 2**32 - 1), (received.op_context, received.opcode, received.imm))
        self.assertEqual(b"ping", pair.server_memory[50:54])

    def test_posts_a_batch_at_its_end(self):
        pair = self.pair()
        pair.client_memory[:2] = b"ab"
        with pair.client.batch() as batch:
            batch.write(pair.remote, 0, pair.client_region, 0, 1, Completions.ON_ERROR)
            batch.write(pair.remote, 1, pair.client_region, 1, 1, Completions.ON_ERROR)
            batch.flush(pair.remote, context=3)
            self.assertEqual([], pair.client.cq.poll())
            self.assertEqual(b"\0\0", pair.server_memory[:2])
        self.assertEqual(3, self.completed(pair.client).op_context)
        self.assertEqual(b"ab", pair.server_memory[:2])

    def test_posts_a_batch_that_an_exception_ends(self):
        pair = self.pair()
        pair.client_memory[:1] = b"a"
        with self.assertRaises(ZeroDivisionError), pair.client.batch() as batch:
            batch.write(pair.remote, 0, pair.client_region, 0, 1)
            raise ZeroDivisionError
        self.completed(pair.client)
        self.assertEqual(b"a", pair.server_memory[:1])

    def test_softrdma_ps_shows_what_a_connection_counts(self):
        pair = self.pair()
        pair.server.recv(None)
        pair.server.recv(pair.server_region)
        pair.client.recv(pair.client_region)
        pair.client.write(pair.remote, 0, pair.client_region, 0, 5)
        pair.client.write(pair.remote, 0, pair.client_region, 0, 6, imm=1)
        pair.client.read(pair.client_region, 0, pair.remote, 0, 7)
        pair.client.atomic_write(pair.remote, 8, b"12345678")
        pair.client.flush(pair.remote)
        pair.client.send(pair.client_region, 0, 3)
        for _ in range(6):
            self.completed(pair.client)
        counted = pair.client.counters
        shown = execute([os.environ["SOFTRDMA"], "ps", str(os.getpid())]).stdout
        line = next(line for line in shown.splitlines() if line.startswith(f"qp number={pair.client.qp_num} "))
        values = dict(word.split("=") for word in line.split()[1:])
        self.assertEqual((1, 7, 2, 11, 1, 1, 1, 3, 1), tuple(int(values[name]) for name in (
            "reads", "read_bytes", "writes", "write_bytes", "atomics", "flushes", "sends", "send_bytes", "receives")))
        self.assertEqual(counted, rpma.Counters(1, 7, 2, 11, 1, 1, 1, 3, 1))
        self.assertEqual("6", values["posted"])

    def test_exchanges_private_data(self):
        pair = self.pair()
        self.assertEqual(b"from the client", pair.request_data.rstrip(b"\0"))
        self.assertEqual((SIZE, Usage.FLUSH_TYPE_VISIBILITY | Usage.FLUSH_TYPE_PERSISTENT),
                         (len(pair.remote), pair.remote.flush_type))

    def test_receives_on_a_queue_of_receives_and_a_shared_channel(self):
        pair = self.pair(server_config=ConnectionConfig(rcq_size=4, compl_channel=True))
        pair.server.recv(pair.server_region)
        with self.assert_fails(ErrorCode.SHARED_CHANNEL):
            pair.server.cq.wait(LIMIT_S)
        pair.client.send(None)
        fired = pair.server.wait(LIMIT_S)
        self.assertEqual(pair.server.rcq, fired)
        self.assertNotEqual(pair.server.cq, fired)
        self.assertEqual(1, len(fired.poll(4)))
        with self.assert_fails(ErrorCode.NO_COMPLETION):
            pair.server.wait(0)
        with self.assert_fails(ErrorCode.NOT_SHARED_CHNL):
            pair.client.wait(0)
        self.assertIsNone(pair.client.rcq)

    def test_descriptors_are_readable_when_completions_are_available(self):
        pair = self.pair()
        self.assertEqual([], select.select([pair.client, pair.client.cq], [], [], 0)[0])
        pair.client.write(pair.remote, 0, pair.client_region, 0, 1)
        queue = pair.client.cq
        self.assertEqual([queue], select.select([queue], [], [], LIMIT_S)[0])
        queue.wait(0)
        self.assertEqual(1, len(queue.poll(2)))
        pair.server.disconnect()
        self.assertEqual([pair.client], select.select([pair.client], [], [], LIMIT_S)[0])
        self.assertEqual(rpma.ConnectionEvent.CLOSED, pair.client.next_event(0))

    def test_shares_a_receive_queue(self):
        with rpma.Peer(rpma.Device(ADDR)) as client, rpma.Peer(rpma.Device(ADDR)) as server, \
                server.create_srq(rpma.SrqConfig(rq_size=4, rcq_size=4)) as queue:
            memory = bytearray(8)
            region = server.register_memory(memory, Usage.RECV)
            config = ConnectionConfig(srq=queue)
            pairs = [self.pair(server_config=config, peers=(client, server)) for _ in range(2)]
            for number, pair in enumerate(pairs):
                queue.recv(region, number * 4, 4, number)
                pair.client_memory[:4] = b"pair"
                pair.client.send(pair.client_region, 0, 4)
                completion = queue.rcq.next(LIMIT_S).check()
                self.assertEqual((number, pair.server.qp_num), (completion.op_context, completion.qp_num))
            self.assertEqual(b"pairpair", memory)
            for pair in pairs:
                pair.close()
            region.close()

    def test_registers_whatever_has_a_buffer(self):
        pair = self.pair()
        numbers = array.array("I", range(4))
        with tempfile.TemporaryFile() as file:
            file.truncate(SIZE)
            with mmap.mmap(file.fileno(), SIZE) as mapping:
                for buffer in (numbers, mapping, memoryview(bytearray(16)), bytes(16)):
                    usage = Usage.WRITE_SRC if isinstance(buffer, bytes) else Usage.READ_DST | Usage.WRITE_SRC
                    with pair.client_peer.register_memory(buffer, usage) as region:
                        self.assertEqual(memoryview(buffer).nbytes, len(region))
                        pair.client.write(pair.remote, 0, region, 0, 16)
                        self.completed(pair.client)
                        self.assertEqual(region.memory[:16], pair.server_memory[:16])

    def test_flushes_a_mapped_file_to_persistence(self):
        pair = self.pair()
        with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
            file.truncate(SIZE)
            with mmap.mmap(file.fileno(), SIZE) as mapping, pair.server_peer.register_memory(mapping, ALL) as region, \
                    rpma.RemoteMemory(region.descriptor) as remote:
                pair.client_memory[:4] = b"kept"
                with pair.client.batch() as batch:
                    batch.write(remote, 0, pair.client_region, 0, 4, Completions.ON_ERROR)
                    batch.flush(remote)
                self.completed(pair.client)
                with open(file.name, "rb") as reader:
                    self.assertEqual(b"kept", reader.read(4))


if __name__ == "__main__":
    unittest.main(verbosity=2)
