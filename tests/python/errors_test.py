# SPDX-License-Identifier: BSD-3-Clause
"""Errors of the Python package, and the log of the library."""

import enum
import errno
import logging
import os
import socket
import unittest

import rpma
from rpma import ConnectionConfig, ConnectionEvent, ErrorCode, FlushType, LogLevel, LogThreshold, Usage
from support import ADDR, LIMIT_S, SIZE, Test, free_port


class Errors(Test):
    def test_a_code_has_a_name_and_the_provider_a_cause(self):
        self.assertEqual({name.removeprefix("RPMA_E_") for name in dir(rpma._error.lib) if name.startswith("RPMA_E_")},
                         set(ErrorCode.__members__))
        with self.assert_fails(ErrorCode.PROVIDER, "192.0.2.1", os.strerror(errno.EADDRNOTAVAIL)) as caught:
            rpma.Device("192.0.2.1")
        self.assertEqual(errno.EADDRNOTAVAIL, caught.exception.errno)
        self.assertEqual((1, 4), rpma.version()[:2])
        self.assertEqual(ErrorCode.UNKNOWN, rpma.Error(-12345).code)

    def test_an_unknown_name_has_the_words_of_the_resolver(self):
        with self.assertRaises(socket.gaierror) as unknown:
            socket.getaddrinfo("name.invalid", None)
        with rpma.Peer(rpma.Device(ADDR)) as peer:
            for use in (lambda: rpma.Device("name.invalid"), lambda: peer.create_request("name.invalid", 1),
                        lambda: peer.listen("name.invalid", 1)):
                with self.assert_fails(ErrorCode.PROVIDER, "name.invalid", unknown.exception.strerror):
                    use()

    def test_each_member_of_an_enumeration_has_its_docstring(self):
        for kind in [value for value in vars(rpma).values() if isinstance(value, type) and issubclass(value, enum.Enum)]:
            documented = {member.__doc__ for member in kind}
            self.assertEqual(len(kind), len(documented - {kind.__doc__, ""}), kind)
            self.assertEqual(list(kind), [kind(int(member)) for member in kind])

    def test_objects_describe_themselves(self):
        pair = self.pair()
        self.assertEqual(f"<rpma.MemoryRegion of {SIZE} bytes>", repr(pair.client_region))
        self.assertEqual(f"<rpma.RemoteMemory of {SIZE} bytes>", repr(pair.remote))
        self.assertEqual(f"<rpma.Connection {pair.client.qp_num}>", repr(pair.client))
        self.assertEqual(f"<rpma.Device SOFTRDMA for {ADDR}>", repr(rpma.Device(ADDR)))
        pair.client.write(pair.remote, 0, pair.client_region, 0, 1, context=5)
        self.assertEqual(f"<rpma.Completion 5: RDMA_WRITE, 1 bytes, connection {pair.client.qp_num}>",
                         repr(self.completed(pair.client)))
        pair.close()
        self.assertEqual("<rpma.Connection, closed>", repr(pair.client))

    def test_operations_outside_of_a_region_are_refused(self):
        pair = self.pair()
        for post in (lambda: pair.client.write(pair.remote, SIZE - 1, pair.client_region, 0, 2),
                     lambda: pair.client.write(pair.remote, 1, pair.client_region, 0),
                     lambda: pair.client.read(pair.client_region, SIZE, pair.remote, 0, 1),
                     lambda: pair.client.flush(pair.remote, 0, SIZE + 1),
                     lambda: pair.client.write(pair.remote, 0, pair.client_region, 0, 1, completions=0),
                     lambda: pair.client.write(pair.remote, 0, pair.client_region, 0, 1, context=2**64),
                     lambda: pair.client.cq.poll(0), lambda: pair.client.cq.poll(-1)):
            with self.assert_fails(ErrorCode.INVAL):
                post()
        with self.assertRaises(OverflowError):
            pair.client.write(pair.remote, -1, pair.client_region, 0, 1)
        self.assertEqual([], pair.client.cq.poll())

    def test_a_flush_that_is_not_possible_is_refused(self):
        pair = self.pair()
        with pair.server_peer.register_memory(bytearray(16), Usage.WRITE_DST | Usage.FLUSH_TYPE_VISIBILITY) as region, \
                rpma.RemoteMemory(region.descriptor) as remote:
            with self.assert_fails(ErrorCode.NOSUPP):
                pair.client.flush(remote, type=FlushType.PERSISTENT)
            pair.client.flush(remote, type=FlushType.VISIBILITY)
            self.completed(pair.client)

    def test_a_failed_operation_completes_with_an_error(self):
        pair = self.pair()
        pair.server_region.close()
        pair.client.write(pair.remote, 0, pair.client_region, 0, 1, context=5)
        completion = pair.client.cq.next(LIMIT_S)
        self.assertEqual((5, None), (completion.op_context, completion.opcode))
        with self.assertRaises(rpma.WorkError) as caught:
            completion.check()
        self.assertEqual(completion, caught.exception.completion)
        self.assertIn(completion.status_message, str(caught.exception))

    def test_a_full_queue_refuses(self):
        pair = self.pair(client_config=ConnectionConfig(sq_size=1, cq_size=1))
        with self.assert_fails(ErrorCode.PROVIDER) as caught:
            for _ in range(1000):
                pair.client.write(pair.remote, 0, pair.client_region, 0, 1)
        self.assertEqual(errno.ENOMEM, caught.exception.errno)

    def test_a_port_without_listener_rejects(self):
        with rpma.Peer(rpma.Device(ADDR)) as peer:
            with peer.create_request(ADDR, free_port()).connect() as connection:
                with self.assertRaises(rpma.UnexpectedEvent) as caught:
                    connection.expect(ConnectionEvent.ESTABLISHED, LIMIT_S)
                self.assertEqual(ConnectionEvent.REJECTED, caught.exception.event)

    def test_a_closed_request_is_rejected(self):
        port = free_port()
        with rpma.Peer(rpma.Device(ADDR)) as peer, peer.listen(ADDR, port) as endpoint:
            with peer.create_request(ADDR, port).connect() as connection:
                endpoint.next_conn_request(timeout=LIMIT_S).close()
                self.assertEqual(ConnectionEvent.REJECTED, connection.next_event(LIMIT_S))

    def test_waits_end_with_their_time(self):
        pair = self.pair()
        with self.assert_fails(ErrorCode.NO_COMPLETION, "within 0.02 s"):
            pair.client.cq.wait(0.02)
        with self.assertRaises(TimeoutError):
            pair.client.cq.next(0)
        with self.assertRaises(TimeoutError):
            pair.client.next_event(0)
        with self.assert_fails(ErrorCode.NO_EVENT):
            pair.client.next_event(0.02)
        with pair.server_peer.listen(ADDR, free_port()) as endpoint, self.assert_fails(ErrorCode.NO_EVENT):
            endpoint.next_conn_request(timeout=0)

    def test_invalid_arguments_are_rejected(self):
        with rpma.Peer(rpma.Device(ADDR)) as peer:
            for make in (lambda: peer.register_memory(bytearray(1), 0), lambda: peer.register_memory(bytearray(1), 1 << 20),
                         lambda: peer.register_memory(b"", Usage.WRITE_SRC), lambda: rpma.RemoteMemory(bytes(20)),
                         lambda: rpma.PeerConfig.from_descriptor(b""), lambda: rpma.Device(ADDR, 7),
                         lambda: rpma.Device(ADDR + "\0"),
                         lambda: peer.create_request(ADDR, 1, ConnectionConfig(timeout_ms=-1)),
                         lambda: rpma.set_log_threshold(99, LogLevel.DEBUG)):
                with self.assert_fails(ErrorCode.INVAL):
                    make()
            for usage in (Usage.READ_DST, Usage.WRITE_DST, Usage.RECV):
                with self.assertRaises(BufferError):
                    peer.register_memory(b"cannot be written", usage)

    def test_a_request_is_closed_whether_it_connects_or_not(self):
        with rpma.Peer(rpma.Device(ADDR)) as peer, peer.register_memory(bytearray(8), Usage.RECV) as region, \
                peer.listen(ADDR, port := free_port()):
            request = peer.create_request(ADDR, port)
            with self.assert_fails(ErrorCode.INVAL):
                request.connect(bytes(256))
            self.assertFalse(request.closed)
            with self.assert_fails(ErrorCode.PROVIDER):
                request.connect(bytes(255))
            self.assertTrue(request.closed)
            for use in (request.connect, lambda: request.recv(region), lambda: request.private_data):
                with self.assert_fails(ErrorCode.INVAL, "closed"):
                    use()
            request.close()


class Logs(Test):
    def setUp(self):
        self.addCleanup(rpma.set_log_threshold, LogThreshold.MAIN, rpma.get_log_threshold(LogThreshold.MAIN))
        self.addCleanup(rpma.set_log_function, None)
        rpma.set_log_threshold(LogThreshold.MAIN, LogLevel.DEBUG)

    def provoke(self):
        with self.assertRaises(rpma.Error):
            rpma.Device("name.invalid")

    def test_a_function_gets_the_messages(self):
        messages = []
        rpma.set_log_function(lambda *message: messages.append(message))
        self.provoke()
        self.assertTrue(messages)
        for level, file, line, function, text in messages:
            self.assertIsInstance(level, LogLevel)
            self.assertTrue(text and not text.endswith("\n"))
            self.assertEqual(file is None, function is None)
            self.assertEqual(file is None, line == 0)
        rpma.set_log_function(None)
        rpma.set_log_threshold(LogThreshold.MAIN, LogLevel.DISABLED)
        count = len(messages)
        self.provoke()
        self.assertEqual(count, len(messages))

    def test_a_logger_gets_the_messages(self):
        rpma.log_to(logging.getLogger("rpma"))
        with self.assertLogs("rpma", logging.DEBUG) as logs:
            self.provoke()
        self.assertTrue(any(record.levelno >= logging.WARNING for record in logs.records), logs.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
