# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous waits for asyncio: `await rpma.aio.next_completion(conn.cq)`.

Several tasks may wait for one object. A wait that is canceled consumes nothing. A wait whose object is closed raises
Error(INVAL). For a limit, use asyncio.timeout or asyncio.wait_for.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

from ._connection import Connection, ConnectionConfig, ConnectionEvent, ConnectionRequest, Endpoint, UnexpectedEvent
from ._error import Timeout
from ._handle import Waitable
from ._peer import Peer
from ._queue import Completion, CompletionQueue

Result = TypeVar("Result")


async def _until(take: Callable[[], Result], owner: Waitable, fileno: Callable[[], int]) -> Result:
    """Returns the result of take, which is called again when the descriptor is readable, as long as it raises Timeout."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return take()
        except Timeout:
            pass
        readable = asyncio.Event()
        descriptors: list[int] = []
        try:
            # Duplicates, because other tasks may watch the same object, or close it.
            for original in (fileno(), owner._wake):
                descriptors.append(os.dup(original))
                loop.add_reader(descriptors[-1], readable.set)
            await readable.wait()
        finally:
            for descriptor in descriptors:
                loop.remove_reader(descriptor)
                os.close(descriptor)


async def next_event(connection: Connection) -> ConnectionEvent:
    """Like Connection.next_event."""
    return await _until(lambda: connection.next_event(0), connection, connection.fileno)


async def expect(connection: Connection, expected: ConnectionEvent) -> None:
    """Like Connection.expect."""
    event = await next_event(connection)
    if event != expected:
        raise UnexpectedEvent(event, expected)


async def next_conn_request(endpoint: Endpoint, config: ConnectionConfig = ConnectionConfig()) -> ConnectionRequest:
    """Like Endpoint.next_conn_request."""
    return await _until(lambda: endpoint.next_conn_request(config, 0), endpoint, endpoint.fileno)


async def next_completion(queue: CompletionQueue) -> Completion:
    """Like CompletionQueue.next, for a queue that does not share a channel."""
    return await _until(lambda: queue.next(0), queue._owner, queue.fileno)


async def wait(connection: Connection) -> CompletionQueue:
    """Like Connection.wait, for queues that share a channel."""
    return await _until(lambda: connection.wait(0), connection, connection.completion_channel_fileno)


async def connect(peer: Peer, addr: str, port: str | int, config: ConnectionConfig = ConnectionConfig(),
                  private_data: bytes = b"") -> Connection:
    """Establishes a connection and returns it. A thread resolves the address, because this blocks. Raises UnexpectedEvent if the
    peer rejected the request, or no program listens."""
    request = await asyncio.to_thread(peer.create_request, addr, port, config)
    connection = request.connect(private_data)
    try:
        await expect(connection, ConnectionEvent.ESTABLISHED)
    except BaseException:
        connection.close()
        raise
    return connection
