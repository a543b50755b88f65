#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: client.py ADDR PORT [TEXT]

Writes a text of at most 1023 bytes to the persistent memory of the server of example 05, or of server.py, and flushes it.
"""

import sys

import rpma


def store(addr: str, port: str, text: bytes) -> None:
    memory = bytearray(text.ljust(1024, b"\0"))
    device = rpma.Device(addr, rpma.Side.REMOTE, rpma.DeviceKind.ANY)
    with rpma.Peer(device) as peer, peer.register_memory(memory, rpma.Usage.WRITE_SRC) as src, \
            peer.create_request(addr, port).connect() as conn:
        conn.expect(rpma.ConnectionEvent.ESTABLISHED, timeout=60)
        # Private data of the server: offset of the text, sizes of two descriptors, then the descriptors.
        handshake = conn.private_data or b""
        offset, size = int.from_bytes(handshake[:2], "little"), handshake[2]
        conn.apply_remote_peer_config(rpma.PeerConfig.from_descriptor(handshake[4 + size:]))
        with rpma.RemoteMemory(handshake[4:4 + size]) as dst, conn.batch() as batch:
            batch.write(dst, offset, src, 0, len(memory), rpma.Completions.ON_ERROR)
            batch.flush(dst, offset, len(memory), rpma.FlushType.PERSISTENT)
        conn.cq.next(timeout=60).check()
        print("durable:", text.decode(), flush=True)
        conn.disconnect()
        conn.expect(rpma.ConnectionEvent.CLOSED, timeout=60)


def main() -> int:
    arguments = sys.argv[1:]
    text = (arguments[2] if len(arguments) == 3 else "Written from Python").encode()
    if len(arguments) not in (2, 3) or len(text) > 1023:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        store(arguments[0], arguments[1], text)
    except (rpma.Error, OSError) as error:
        print(f"client.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
