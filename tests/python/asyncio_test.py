# SPDX-License-Identifier: BSD-3-Clause
"""Waits of the Python package in coroutines. No result depends on timing: each wait ends because of another task."""

import asyncio
import unittest

import rpma
from rpma import ConnectionEvent, ErrorCode, aio
from support import ADDR, ALL, LIMIT_S, Test, free_port


class Asyncio(Test, unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.peer = self.enterContext(rpma.Peer(rpma.Device(ADDR)))
        self.region = self.enterContext(self.peer.register_memory(bytearray(64), ALL))

    async def connected(self) -> tuple[rpma.Connection, rpma.Connection]:
        port = free_port()
        with self.peer.listen(ADDR, port) as endpoint:
            client = asyncio.create_task(aio.connect(self.peer, ADDR, port, private_data=b"hello"))
            request = await aio.next_conn_request(endpoint)
            self.assertEqual(b"hello", request.private_data[:5])
            server = self.enterContext(request.connect())
            await aio.expect(server, ConnectionEvent.ESTABLISHED)
            return self.enterContext(await client), server

    async def test_two_sides_in_one_loop_exchange_messages(self):
        async with asyncio.timeout(LIMIT_S):
            client, server = await self.connected()
            for number in range(3):
                server.recv(self.region, 32, 32, context=number)
                received = asyncio.create_task(aio.next_completion(server.cq))
                self.region.memory[:5] = b"ping%d" % number
                client.send(self.region, 0, 32)
                (await aio.next_completion(client.cq)).check()
                self.assertEqual(number, (await received).check().op_context)
                self.assertEqual(b"ping%d" % number, bytes(self.region.memory[32:37]))
            client.disconnect()
            await aio.expect(server, ConnectionEvent.CLOSED)

    async def test_each_of_several_tasks_gets_a_completion(self):
        async with asyncio.timeout(LIMIT_S):
            client, server = await self.connected()
            waiting = [asyncio.create_task(aio.next_completion(server.cq)) for _ in range(3)]
            for number in range(3):
                server.recv(self.region, 0, 1, context=number)
            for _ in range(3):
                client.send(self.region, 0, 1)
                await aio.next_completion(client.cq)
            self.assertEqual({0, 1, 2}, {completion.op_context for completion in await asyncio.gather(*waiting)})

    async def test_a_canceled_wait_takes_nothing(self):
        async with asyncio.timeout(LIMIT_S):
            client, server = await self.connected()
            waiting = asyncio.create_task(aio.next_completion(server.cq))
            await asyncio.sleep(0)  # lets the task wait
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            self.assertTrue(waiting.cancelled())
            server.recv(self.region, 0, 1, context=7)
            client.send(self.region, 0, 1)
            self.assertEqual(7, (await aio.next_completion(server.cq)).op_context)

    async def test_closing_ends_a_wait(self):
        async with asyncio.timeout(LIMIT_S):
            with self.peer.listen(ADDR, free_port()) as endpoint:
                waiting = asyncio.create_task(aio.next_conn_request(endpoint))
                await asyncio.sleep(0)
            with self.assert_fails(ErrorCode.INVAL, "closed"):
                await waiting

    async def test_a_port_without_listener_rejects(self):
        async with asyncio.timeout(LIMIT_S):
            with self.assertRaises(rpma.UnexpectedEvent) as caught:
                await aio.connect(self.peer, ADDR, free_port())
            self.assertEqual(ConnectionEvent.REJECTED, caught.exception.event)


if __name__ == "__main__":
    unittest.main(verbosity=2)
