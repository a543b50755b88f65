# SPDX-License-Identifier: BSD-3-Clause
"""A peer of the append-only file's engines, written from the description of their protocol. It contains no code of the
engines.

usage: append_peer.py client sw|hw ADDRESS PORT COUNT
           appends COUNT blocks of 4 KiB, up to 8 in flight; all bytes of the nth are n
       append_peer.py server sw|hw ADDRESS PORT FILE
           serves one client; FILE, which is mapped, is the workspace"""

import contextlib
import mmap
import struct
import sys

import rpma
from rpma import Completions, ConnectionConfig, ConnectionEvent, FlushType, Opcode, Usage

DEPTH, BLOCK, MESSAGE = 8, 4096, 512
DESCRIPTION_SIZE, DESCRIPTOR_SIZE = 28, 21
TAGS = (0x09, 0x11, 0x19, 0x21)
LIMIT_S = 20
CONFIG = ConnectionConfig(sq_size=4 * DEPTH, rq_size=DEPTH, cq_size=6 * DEPTH)


class Messages:
    """Registered memory of outgoing messages, then of incoming ones."""

    def __init__(self, peer: rpma.Peer):
        self.region = peer.register_memory(bytearray(2 * DEPTH * MESSAGE), Usage.SEND | Usage.RECV)

    def post_receive(self, to: rpma.Connection | rpma.ConnectionRequest, slot: int) -> None:
        to.recv(self.region, (DEPTH + slot) * MESSAGE, MESSAGE, slot)

    def send(self, conn: rpma.Connection, slot: int, *values: int) -> None:
        message = b"".join(struct.pack("<BQ", *field) for field in zip(TAGS, values))
        self.region.memory[slot * MESSAGE:slot * MESSAGE + len(message)] = message
        conn.send(self.region, slot * MESSAGE, len(message))

    def received(self, completion: rpma.Completion, count: int) -> list[int]:
        """Returns the values of a message, which must have that number of fields."""
        at = (DEPTH + completion.op_context) * MESSAGE
        message = bytes(self.region.memory[at:at + completion.byte_len])
        if len(message) != 9 * count or message[::9] != bytes(TAGS[:count]):
            sys.exit(f"a message of {count} fields is {message.hex()}")
        return [value for _, value in struct.iter_unpack("<BQ", message)]


def described(conn: rpma.Connection, is_hw: bool) -> tuple[rpma.RemoteMemory, FlushType]:
    """Returns the server's workspace that the client received, and the type of its flushes."""
    data = conn.private_data or b""
    if len(data) < DESCRIPTION_SIZE or data[3] != DESCRIPTOR_SIZE:
        sys.exit(f"{data.hex()} describes no workspace")
    max_messages, direct_write = struct.unpack_from("<HB", data)
    if not is_hw and max_messages < DEPTH:
        sys.exit("the server takes too few messages")
    workspace = rpma.RemoteMemory(data[4:4 + DESCRIPTOR_SIZE])
    if not workspace.flush_type & Usage.FLUSH_TYPE_PERSISTENT:
        return workspace, FlushType.VISIBILITY
    if is_hw and direct_write != 1:
        sys.exit("persistent memory without direct write")
    conn.apply_remote_peer_config(rpma.PeerConfig(direct_write_to_pmem=True))
    return workspace, FlushType.PERSISTENT


def next_done(conn: rpma.Connection, messages: Messages, is_hw: bool) -> int:
    """Waits until an append is done, and returns its number."""
    completion = conn.cq.next(LIMIT_S).check()
    while completion.opcode == Opcode.SEND:
        completion = conn.cq.next(LIMIT_S).check()
    return completion.op_context if is_hw else messages.received(completion, 1)[0]


def act_as_client(peer: rpma.Peer, messages: Messages, is_hw: bool, addr: str, port: str, count: str) -> None:
    blocks = peer.register_memory(bytearray(DEPTH * BLOCK), Usage.WRITE_SRC)
    conn = peer.create_request(addr, port, CONFIG).connect()
    conn.expect(ConnectionEvent.ESTABLISHED, LIMIT_S)
    workspace, flush_type = described(conn, is_hw)
    pointer = len(workspace) - 8
    if int(count) > pointer // BLOCK:
        sys.exit(f"{count} blocks do not fit")
    for number in range(int(count) + DEPTH):
        if number >= DEPTH and (done := next_done(conn, messages, is_hw)) != number - DEPTH:
            sys.exit(f"append {done} is done before append {number - DEPTH}")
        if number >= int(count):
            continue
        slot, offset = number % DEPTH, number * BLOCK
        blocks.memory[slot * BLOCK:(slot + 1) * BLOCK] = bytes([number & 0xff]) * BLOCK
        conn.write(workspace, offset, blocks, slot * BLOCK, BLOCK, Completions.ON_ERROR)
        if is_hw:
            conn.flush(workspace, offset, BLOCK, flush_type, Completions.ON_ERROR)
            conn.atomic_write(workspace, pointer, struct.pack("<Q", offset + BLOCK), Completions.ON_ERROR)
            conn.flush(workspace, pointer, 8, flush_type, context=number)
        else:
            messages.post_receive(conn, slot)
            messages.send(conn, slot, offset, BLOCK, pointer, number)
    if not is_hw:
        messages.send(conn, 0, 0, 0, 0, 0)
        conn.expect(ConnectionEvent.CLOSED, LIMIT_S)
    conn.disconnect()
    conn.close()


def respond(conn: rpma.Connection, messages: Messages, workspace: mmap.mmap) -> None:
    """Stores the pointers of appends until the client reports that it is done."""
    while True:
        completion = conn.cq.next(LIMIT_S).check()
        if completion.opcode != Opcode.RECV:
            continue
        offset, length, pointer, context = messages.received(completion, 4)
        if not any((offset, length, pointer, context)):
            return
        if pointer != len(workspace) - 8 or length == 0 or offset + length > pointer:
            sys.exit(f"a request is about {length} bytes at {offset} and the pointer at {pointer}")
        workspace[pointer:] = struct.pack("<Q", offset + length)
        messages.post_receive(conn, completion.op_context)
        messages.send(conn, completion.op_context, context)


def act_as_server(peer: rpma.Peer, messages: Messages, is_hw: bool, addr: str, port: str, path: str) -> None:
    with open(path, "r+b") as file:
        workspace = mmap.mmap(file.fileno(), 0)
    flush = Usage.FLUSH_TYPE_PERSISTENT if is_hw else Usage.FLUSH_TYPE_VISIBILITY
    region = peer.register_memory(
        workspace, Usage.READ_SRC | Usage.READ_DST | Usage.WRITE_SRC | Usage.WRITE_DST | flush)
    # For hw, the number of messages is uninitialized memory in older engines.
    description = struct.pack("<HBB", 0xa5a5 if is_hw else DEPTH, is_hw, DESCRIPTOR_SIZE) + region.descriptor
    with peer.listen(addr, port) as endpoint, endpoint.next_conn_request(CONFIG) as request:
        for slot in () if is_hw else range(DEPTH):
            messages.post_receive(request, slot)
        conn = request.connect(description.ljust(DESCRIPTION_SIZE, b"\0"))
        conn.expect(ConnectionEvent.ESTABLISHED, LIMIT_S)
        if is_hw:
            conn.expect(ConnectionEvent.CLOSED, LIMIT_S)
        else:
            respond(conn, messages, workspace)
        conn.disconnect()
        conn.close()


def main(role: str, mode: str, addr: str, *others: str) -> None:
    side = rpma.Side.REMOTE if role == "client" else rpma.Side.LOCAL
    with contextlib.closing(rpma.Peer(rpma.Device(addr, side))) as peer:
        (act_as_client if role == "client" else act_as_server)(peer, Messages(peer), mode == "hw", addr, *others)


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
