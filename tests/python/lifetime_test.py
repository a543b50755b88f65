# SPDX-License-Identifier: BSD-3-Clause
"""Objects closed twice, used after close, garbage collected, used by several threads, after a fork, or in an interrupted call."""

import gc
import mmap
import os
import signal
import threading
import time
import unittest
import warnings
import weakref

import rpma
from rpma import ConnectionEvent, ErrorCode, Usage
from support import ADDR, ALL, LIMIT_S, SIZE, Pair, Test, free_port


class Memory(bytearray):
    """Supports weak references."""


class Lifetimes(Test):
    def test_a_registered_buffer_stays_and_cannot_be_resized(self):
        with rpma.Peer(rpma.Device(ADDR)) as peer:
            memory = Memory(SIZE)
            forgotten = weakref.ref(memory)
            region = peer.register_memory(memory, ALL)
            with self.assertRaises(BufferError):
                memory.extend(b"more")
            del memory
            gc.collect()
            self.assertIsNotNone(forgotten())
            region.close()
            self.assertIsNone(forgotten())
            memory = bytearray(SIZE)
            with peer.register_memory(memory, ALL):
                pass
            memory.extend(b"more")
            with self.assertRaises(rpma.Error):
                peer.register_memory(memory, 0)
            memory.extend(b"more")

    def test_a_registered_mapping_cannot_be_unmapped(self):
        with rpma.Peer(rpma.Device(ADDR)) as peer, mmap.mmap(-1, SIZE) as mapping:
            with peer.register_memory(mapping, ALL), self.assertRaises(BufferError):
                mapping.close()

    def test_a_forgotten_buffer_is_written_to_by_the_remote(self):
        pair = self.pair()
        memory = Memory(SIZE)
        forgotten = weakref.ref(memory)
        region = pair.server_peer.register_memory(memory, ALL)
        del memory
        gc.collect()
        with rpma.RemoteMemory(region.descriptor) as remote:
            pair.client_memory[:4] = b"here"
            pair.client.write(remote, 0, pair.client_region, 0, 4)
            self.completed(pair.client)
            self.assertEqual(b"here", forgotten()[:4])
        region.close()
        self.assertIsNone(forgotten())

    def test_a_connection_keeps_the_regions_of_its_operations(self):
        pair = self.pair()
        memory = Memory(b"data")
        forgotten = weakref.ref(memory)
        pair.server.recv(pair.server_peer.register_memory(bytearray(8), Usage.RECV))
        pair.client.send(pair.client_peer.register_memory(memory, Usage.SEND))
        del memory
        gc.collect()
        self.completed(pair.client)
        self.completed(pair.server)
        self.assertIsNotNone(forgotten())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            pair.client.close()
            pair.server.close()
        self.assertIsNone(forgotten())

    def test_closing_twice_is_harmless_and_use_afterwards_is_refused(self):
        pair = self.pair()
        queue = pair.server_peer.create_srq(rpma.SrqConfig(rcq_size=4))
        endpoint = pair.server_peer.listen(ADDR, free_port())
        cq, rcq = pair.client.cq, queue.rcq
        request = pair.client_peer.create_request(ADDR, free_port())
        closed = (request, pair.client, queue, endpoint, pair.server_region, pair.remote, pair.client_peer)
        for closable in closed:
            for _ in range(2):
                closable.close()
            self.assertTrue(closable.closed)
        client, region, remote = pair.client, pair.server_region, pair.remote
        for use in (
                cq.wait, cq.poll, cq.next, cq.fileno, rcq.poll, rcq.wait, lambda: queue.rcq, lambda: queue.recv(None),
                lambda: client.cq, lambda: client.rcq, client.fileno, client.completion_channel_fileno, client.next_event, client.wait,
                client.disconnect, client.submit, lambda: client.qp_num, lambda: client.counters, lambda: client.private_data,
                lambda: client.has_native_flush, lambda: region.native_flush_type,
                lambda: client.apply_remote_peer_config(rpma.PeerConfig()),
                lambda: client.recv(None), lambda: client.send(None), lambda: client.read(None, 0, None, 0),
                lambda: client.write(None, 0, None, 0), lambda: client.batch().send(None),
                lambda: pair.server.flush(remote), lambda: pair.server.atomic_write(remote, 0, bytes(8)),
                lambda: pair.server.send(region), lambda: region.descriptor, lambda: region.memory,
                lambda: region.advise(0, 1, rpma.Advice.PREFETCH), lambda: len(remote), lambda: remote.flush_type,
                endpoint.fileno, endpoint.next_conn_request, request.connect, lambda: request.private_data,
                lambda: pair.client_peer.register_memory(bytearray(1), ALL), lambda: pair.client_peer.listen(ADDR, 1),
                lambda: pair.client_peer.create_request(ADDR, 1), pair.client_peer.create_srq):
            with self.assert_fails(ErrorCode.INVAL, "is closed"):
                use()

    def test_a_peer_is_freed_with_its_last_object(self):
        pair = self.pair()
        pair.client_peer.close()
        pair.server_peer.close()
        pair.client.write(pair.remote, 0, pair.client_region, 0, 1)
        self.completed(pair.client)

    def test_objects_in_a_cycle_are_freed_in_order(self):
        pair = Pair()
        for closable in (pair.client_peer, pair.client, pair.client_region):
            closable.itself = [closable, pair.client_peer, pair.client, pair.client_region]
        server, server_side = pair.server, (pair.server_peer, pair.server_region, pair.remote)
        pair.owned.pop_all()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del pair, closable
            gc.collect()
        self.assertEqual({f"a {kind} was not closed" for kind in ("peer", "connection", "memory region")},
                         {str(warning.message) for warning in caught})
        self.assertEqual(ConnectionEvent.CLOSED, server.next_event(LIMIT_S))
        for closable in (server, *server_side):
            closable.close()

    def test_a_wait_ends_when_another_thread_closes(self):
        pair, other = self.pair(), self.pair()
        with pair.server_peer.listen(ADDR, free_port()) as endpoint:
            for closable, wait in ((pair.client, pair.client.cq.next), (other.client, other.client.next_event),
                                   (endpoint, endpoint.next_conn_request)):
                outcomes = []

                def wait_for_ever(wait=wait, outcomes=outcomes):
                    try:
                        wait()
                    except rpma.Error as error:
                        outcomes.append(str(error))

                waiter = threading.Thread(target=wait_for_ever, daemon=True)
                waiter.start()
                time.sleep(0.05)
                closable.close()
                waiter.join(LIMIT_S)
                self.assertEqual(1, len(outcomes))
                self.assertIn("is closed", outcomes[0])

    def test_a_signal_interrupts_a_wait_while_other_threads_run(self):
        pair = self.pair()
        rounds = 0

        def interrupt():
            nonlocal rounds
            end = time.monotonic() + 0.1
            while time.monotonic() < end:
                rounds += 1
            os.kill(os.getpid(), signal.SIGINT)

        for wait in (pair.client.next_event, pair.client.cq.next):
            thread = threading.Thread(target=interrupt)
            thread.start()
            with self.assertRaises(KeyboardInterrupt):
                wait(LIMIT_S)
            thread.join()
        self.assertGreater(rounds, 0)
        pair.client.write(pair.remote, 0, pair.client_region, 0, 1)
        self.completed(pair.client)

    def test_threads_use_objects_that_another_thread_closes(self):
        for _ in range(5):
            pair = self.pair()
            outcomes = []

            def use(pair=pair, outcomes=outcomes):
                try:
                    while True:
                        pair.client.write(pair.remote, 0, pair.client_region, 0, 64)
                        pair.client.cq.next(LIMIT_S)
                except rpma.Error as error:
                    outcomes.append(error)

            threads = [threading.Thread(target=use) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.01)
            for closable in (pair.client_region, pair.remote, pair.client, pair.client_peer):
                closable.close()
            for thread in threads:
                thread.join(LIMIT_S)
            self.assertEqual(3, len(outcomes))

    def test_a_child_is_refused_and_leaves_the_parent_alone(self):
        pair = self.pair()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with self.assert_fails(ErrorCode.INVAL, "fork"):
                    pair.client.submit()
                pair.close()
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(0, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        pair.client_memory[:1] = b"p"
        pair.client.write(pair.remote, 0, pair.client_region, 0, 1)
        self.completed(pair.client)
        self.assertEqual(b"p", pair.server_memory[:1])
        with self.assert_fails(ErrorCode.NO_EVENT):
            pair.server.next_event(0.02)


if __name__ == "__main__":
    unittest.main(verbosity=2)
