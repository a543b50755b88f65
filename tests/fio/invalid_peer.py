# SPDX-License-Identifier: BSD-3-Clause
"""A peer of the engines that violates their protocol.

usage: invalid_peer.py client ADDRESS PORT HEX
           connects, sends the bytes as a message and waits until the server disconnects
       invalid_peer.py server ADDRESS PORT HEX HEX
           accepts one client with the first bytes as private data, where {region} describes one page, and responds to
           each message with the second bytes"""

import select
import sys

import rpma
from rpma import ConnectionEvent, Opcode, Usage

PAGE, MESSAGE_SIZE, MESSAGES = 4096, 512, 8
LIMIT_S = 20
# One page to which peers write, then received messages.
MEMORY = bytearray(PAGE + MESSAGES * MESSAGE_SIZE)


def act_as_client(peer: rpma.Peer, region: rpma.MemoryRegion, addr: str, port: str, message: str) -> None:
    data = bytes.fromhex(message)
    MEMORY[:len(data)] = data
    with peer.create_request(addr, port).connect() as conn:
        conn.expect(ConnectionEvent.ESTABLISHED, LIMIT_S)
        conn.send(region, 0, len(data))
        conn.expect(ConnectionEvent.CLOSED, LIMIT_S)
        conn.disconnect()


def act_as_server(peer: rpma.Peer, region: rpma.MemoryRegion, addr: str, port: str, private_data: str,
                  response: str) -> None:
    described = bytes((MESSAGES, 0, 0, len(region.descriptor))) + region.descriptor
    data = described.ljust(28, b"\0") if private_data == "{region}" else bytes.fromhex(private_data)
    answer = bytes.fromhex(response)
    MEMORY[:len(answer)] = answer
    with peer.listen(addr, port) as endpoint, endpoint.next_conn_request() as request:
        for number in range(MESSAGES):
            request.recv(region, PAGE + number * MESSAGE_SIZE, MESSAGE_SIZE)
        with request.connect(data) as conn:
            connected = conn.next_event(LIMIT_S) == ConnectionEvent.ESTABLISHED
            while connected and select.select([conn, conn.cq], [], [], LIMIT_S)[0] == [conn.cq]:
                conn.cq.wait(LIMIT_S)
                for completion in conn.cq.poll(MESSAGES):
                    if completion.opcode == Opcode.RECV:
                        conn.send(region, 0, len(answer))


def main(role: str, addr: str, *others: str) -> None:
    side = rpma.Side.REMOTE if role == "client" else rpma.Side.LOCAL
    usage = Usage.SEND | Usage.RECV | Usage.WRITE_DST | Usage.READ_SRC | Usage.FLUSH_TYPE_VISIBILITY
    with rpma.Peer(rpma.Device(addr, side)) as peer, peer.register_memory(MEMORY, usage) as region:
        (act_as_client if role == "client" else act_as_server)(peer, region, addr, *others)


if __name__ == "__main__":
    main(*sys.argv[1:])
