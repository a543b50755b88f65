#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: server.py ADDR PORT FILE [CLIENTS]

Lets clients (default: one) write a text to a file and flush it. An asyncio task serves each client: those of example 05, and
client.py."""

import asyncio
import mmap
import sys

import rpma
from rpma import aio

TEXT_SIZE = 1024


async def serve_client(request: rpma.ConnectionRequest, handshake: bytes, memory: mmap.mmap) -> None:
    try:
        with request.connect(handshake) as conn:
            await aio.expect(conn, rpma.ConnectionEvent.ESTABLISHED)
            # The client writes and flushes without help of this program.
            await aio.expect(conn, rpma.ConnectionEvent.CLOSED)
    except rpma.Error as error:
        print(f"server.py: a client failed: {error}", file=sys.stderr)
    else:
        print("New value:", memory[:TEXT_SIZE].split(b"\0")[0].decode(errors="replace"), flush=True)


async def serve(addr: str, port: str, path: str, clients: int) -> None:
    device = rpma.Device(addr, rpma.Side.LOCAL, rpma.DeviceKind.ANY)
    # softrdma writes a file back before it completes a flush; RDMA hardware does not.
    persistent = device.kind == rpma.DeviceKind.SOFTRDMA
    usage = rpma.Usage.WRITE_DST | rpma.Usage.FLUSH_TYPE_VISIBILITY | rpma.Usage.FLUSH_TYPE_PERSISTENT
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory, rpma.Peer(device) as peer, \
            peer.register_memory(memory, usage) as region, peer.listen(addr, port) as endpoint:
        config = rpma.PeerConfig(direct_write_to_pmem=persistent).descriptor
        # Offset of the text, sizes of two descriptors, the descriptors.
        handshake = bytes([0, 0, len(region.descriptor), len(config)]) + region.descriptor + config
        print(f"listening on {addr} port {port}", flush=True)
        tasks = []
        for _ in range(clients):
            request = await aio.next_conn_request(endpoint)
            tasks.append(asyncio.create_task(serve_client(request, handshake, memory)))
        await asyncio.gather(*tasks)
        memory.flush()


def main() -> int:
    arguments = sys.argv[1:]
    if len(arguments) not in (3, 4) or not all(number.isdecimal() for number in arguments[3:]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        asyncio.run(serve(arguments[0], arguments[1], arguments[2], int(arguments[3]) if len(arguments) == 4 else 1))
    except (rpma.Error, OSError, ValueError) as failure:
        print(f"server.py: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
